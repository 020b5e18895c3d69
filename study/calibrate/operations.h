/* What a calibration does with a tensor, counted: tokens, columns, times, floating-point operations. A tensor
 * is its number in the job. */
#pragma once

#include "study/calibrate/calibration.h"

/* Returns the share of a tensor's matrices that a token meets; *used: how many of its experts. */
double calibrate_share_met(const model_source *file, const model_tensor *t, uint64_t *used);
/* Returns the approximate number of floating-point operations of a whole run. */
double calibrate_work(const calibration *j);

/* Tokens of the text that meet a layer's weights, in all loops of the model. */
double operations_tokens(const calibration *j);
/* Columns of a tensor that are considered together. */
double operations_width(const calibration *j, size_t i);
/* Held-back tokens that each matrix of a tensor is compared on. */
double operations_held(const calibration *j, size_t i);
/* Times that a tensor's site is gathered, for some of its matrices each. */
double operations_gathers(const calibration *j, size_t i);
/* Whether the base model is run ahead over a part of the text. */
bool operations_run_ahead(const calibration *j);
/* Streams that pass the layers. */
double operations_streams(const calibration *j);
static inline bool operations_calibrated(const calibration *j, size_t output, size_t i) {
    return j->outputs[output][i].calibrated;
}

enum { OPERATIONS_PRODUCT = 2 }; /* of a product, per token and weight */
/* Operations that one tensor adds. */
typedef struct tensor_work {
    double pass; /* of a stream through it, with all tokens */
    double gather, cholesky, round;
} tensor_work;
tensor_work operations_of(const calibration *j, size_t output, size_t i);
