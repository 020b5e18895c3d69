/* Samples the matrices' inputs on a part of the calibration's text, so that types can be chosen by what
 * errors cost before anything is rounded. */
#ifndef GQ_CALIBRATION_SAMPLE_H
#define GQ_CALIBRATION_SAMPLE_H

#include "pass/stream.h"
#include "quantize/plan/plan.h"

/* Returns the ids of n of a job's windows, at equal distances; malloc'ed, NULL: no memory. */
uint32_t *plan_sample_windows(const forward_job *j, size_t n, gq_error *e);

/* Runs the original model. *inputs is the caller's to free, and empty on failure. */
bool plan_sample_calibration(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks,
                             gq_error *e);

#endif
