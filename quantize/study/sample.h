/* Samples the matrices' inputs on a part of the calibration's text, so that types can be chosen by what
 * errors cost before anything is rounded. */
#ifndef GQ_SAMPLE_H
#define GQ_SAMPLE_H

#include "pass/stream.h"
#include "quantize/plan/calibration.h"
#include "quantize/plan/target.h"

/* Returns the ids of n of a job's windows, at equal distances; malloc'ed, NULL: no memory. */
uint32_t *sample_windows(const forward_job *j, size_t n, gq_error *e);

/* Runs the original model. *inputs is the caller's to free, and empty on failure. */
bool sample_run(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);

/* n: trials that this process does. windows: of the text that each runs on. measures: else the rates are
 * those of a usual processor. */
trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows,
                                            bool measures);

#endif
