/* The work of a calibrated run, and the seconds that it takes on this machine. */
#ifndef GQ_CALIBRATION_TIME_H
#define GQ_CALIBRATION_TIME_H

#include "quantize/plan/calibration.h"

/* Returns the approximate number of floating-point operations. */
double calibration_work(const gq_plan *plan, const plan_calibration *c);
/* Measures, for about a second or some (quantize/sweep/forecast.h), how long the layers take that are left to
 * do. 0: that cannot be told. callbacks: told that it measures. */
double calibration_forecast(const gq_plan *plan, plan_calibration *c, const gq_callbacks *callbacks);
/* Fills c->costs where no forecast has, by the rates of a usual processor. */
bool calibration_cost(const gq_plan *plan, plan_calibration *c, gq_error *e);
/* Returns the seconds of c->costs that are left to do, in layers and before them. */
double calibration_seconds_left(const plan_calibration *c);

/* What types for a target are chosen by before: a sample of inputs, and trials of what tensors' errors do to
 * the predictions. */
typedef struct trials_forecast {
    double sample, layers, head; /* seconds of the sample; of the trials' layers, and of their logits */
    double expected;             /* of all; 0: it was not measured */
} trials_forecast;
/* n: trials that this process does. windows: of the text that each runs on. measures: else the rates are
 * those of a usual processor. */
trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows,
                                            bool measures);

#endif
