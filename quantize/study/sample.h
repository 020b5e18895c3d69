/* Samples the matrices' inputs on a part of the calibration's text, so that types can be chosen by what
 * errors cost before anything is rounded. */
#ifndef GQ_SAMPLE_H
#define GQ_SAMPLE_H

#include "pass/stream.h"
#include "quantize/plan/calibration/calibration.h"
#include "quantize/plan/target/target.h"

/* Some of a job's windows; both malloc'ed. */
typedef struct sampled_windows {
    uint32_t *ids;
    forward_mark *marks;     /* NULL: the job has none */
    forward_target *targets; /* likewise */
} sampled_windows;
/* Takes n of a job's windows, at equal distances. On failure *to is to be freed, too. */
bool sample_windows(sampled_windows *to, const forward_job *j, size_t n, gq_error *e);
/* Has a job run on them. */
void sample_take(const sampled_windows *w, forward_job *j);
void sample_windows_free(sampled_windows *w);

/* Runs the original model. *inputs is the caller's to free, and empty on failure. */
bool sample_run(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);

/* n: trials that this process does. windows: of the text that each runs on. measures: else the rates are
 * those of a usual processor. */
trials_forecast calibration_forecast_trials(const plan_calibration *c, size_t n, size_t windows,
                                            bool measures);

#endif
