/* Samples the matrices' inputs on a part of the calibration's text, so that types can be chosen by what
 * errors cost before anything is rounded. */
#pragma once

#include "forward/stream/stream.h"
#include "quantize/plan/target/target.h"
#include "study/calibrate/calibration.h"
#include "study/inputs/collect.h"

/* Tokens of the sample. Mean squares need far fewer than Hessians do; these are an eighth of the usual text. */
enum { SAMPLE_TOKENS = 8192 };

/* Takes n of the windows of all, at equal distances, which are kept, and has a job run on them. *kept is to be freed, also on
 * failure. */
bool sample_windows(text_windows *kept, forward_job *j, const forward_job *all, size_t n, gq_error *e);

/* Bytes of the sums over the sample. */
collection_sizes sample_sizes(const gq_plan *plan);
/* Runs the base model. *inputs is the caller's to free, and empty on failure. */
bool sample_run(const gq_plan *plan, model_inputs *inputs, const gq_callbacks *callbacks, gq_error *e);

/* n: trials that this process does. windows: of the text that each runs on. measures: else the rates are
 * those of a usual processor. */
trials_forecast calibration_forecast_trials(const calibration *c, size_t n, size_t windows, bool measures);
