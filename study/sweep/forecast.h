/* Measures how long running models takes on this machine, before it is done: some tokens of the text go
 * through one layer of each kind, and through some rows of the output matrix. It takes about a second, or
 * some seconds where layers are large and threads few, and decides no bytes.
 */
#pragma once

#include "base/callbacks.h"
#include "base/error.h"
#include "forward/stream/stream.h"

typedef struct forecast_request {
    const forward_job *job; /* its text, threads and memory; its `progress` is not called */
    const forward_model *const *models;
    size_t n_models;
    const gq_callbacks *callbacks; /* told that a sample is measured; may be NULL */
    size_t batch;                  /* windows at once; 0: as many as the job has at most */
    uint64_t layer; /* bytes that a layer may take (forward_bounds); the sample takes the fewest */
    size_t scored;  /* positions of each window whose logits are compared, the last ones; 0: none */
} forecast_request;

/* Seconds, sums over all models. */
typedef struct forecast_pace {
    double read;   /* reading all layers once */
    double token;  /* a token through all layers */
    double scored; /* logits of a position, compared over the whole vocabulary */
} forecast_pace;

/* For work of fewer floating-point operations, which is done within a second, nothing is measured. */
static const double FORECAST_LEAST_WORK = 4e9;
/* What a forecast gives for work as short as this, in seconds. */
enum { FORECAST_LEAST_SECONDS = 1 };
/* Where nothing is measured: seconds of a usual processor's thread for a weight and a token, which are two
 * operations. */
static const double FORECAST_USUAL_PRODUCT = 2.5e-11;
/* Operations of one stream of each model through its layers, and through the output matrix for the scored
 * positions, about. */
double forecast_work(const forecast_request *r);

bool forecast_measure(const forecast_request *r, forecast_pace *to, gq_error *e);
