/* The work of a calibrated run, and the seconds that it takes on this machine. */
#ifndef GQ_CALIBRATION_TIME_H
#define GQ_CALIBRATION_TIME_H

#include "quantize/plan/calibration.h"

/* Returns the approximate number of floating-point operations. */
double calibration_work(const gq_plan *plan, const plan_calibration *c);
/* Measures, for about a second, how long the layers take that are left to do. 0: that cannot be told. */
double calibration_forecast(const gq_plan *plan, const plan_calibration *c);

#endif
