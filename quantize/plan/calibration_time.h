/* The work of a calibrated run, and the seconds that it takes on this machine. */
#ifndef GQ_CALIBRATION_TIME_H
#define GQ_CALIBRATION_TIME_H

#include "quantize/plan/calibration.h"

/* Returns the approximate number of floating-point operations. */
double calibration_work(const gq_plan *plan, const plan_calibration *c);
/* Measures, for about a second or some (quantize/sweep/forecast.h), how long the layers take that are left to
 * do. 0: that cannot be told. */
double calibration_forecast(const gq_plan *plan, const plan_calibration *c);

/* What types for a target are chosen by before: a sample of inputs, and trials of what tensors' errors do to
 * the predictions. */
typedef struct trials_forecast {
    double all, trials; /* seconds; trials: of these, those after the sample. 0: that cannot be told */
} trials_forecast;
/* n: trials that this process does. windows: of the text that each runs on. */
trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows);

#endif
