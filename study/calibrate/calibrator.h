/* What runs of a calibration: the streams of hidden states and where in the layers they are, which tensors are
 * rounded, and the progress. layers.c goes through the layers with it, layer.c through the sites of one. */
#pragma once

#include "study/calibrate/calibration.h"
#include "study/calibrate/embedding.h"
#include "study/calibrate/record.h"

/* A tensor of the calibration, found by its address. */
typedef struct numbered {
    const model_tensor *tensor;
    size_t number;
} numbered;

/* The progress of a tensor for an output. */
typedef struct tensor_progress {
    uint64_t settled; /* matrices */
    round_reason reason;
    calibrate_figures figures;
    float *squares; /* mean squares of its matrices' inputs; NULL: none are known */
} tensor_progress;

/* A weight that is being rounded; its output's stream goes on with it. */
typedef struct rounded_weight {
    const model_tensor *tensor;
    uint8_t *blocks; /* NULL: they are read from the output again */
} rounded_weight;

typedef struct calibrator {
    const calibration *of;
    checkpoint *saved;
    sweep sweep;
    sweep_progress
        progress;      /* in weights that are to be rounded, shared out by what is predicted to take long */
    double per_second; /* of these units to a predicted second */
    forward_stream *base, **rounded; /* the sweep's; one per output, NULL: not calibrated */
    matmul *products;
    probe_cache *results;       /* kept between probes; NULL: none are */
    numbered *sorted;           /* NULL: nothing is rounded, inputs of the output matrix alone are gathered */
    tensor_progress *by_tensor; /* output by output */
    calibrate_record record;    /* of the current step */
    embedding_metric embedding;
    calibrate_timing untimed; /* of what is no sample */
    /* Where it is: an output's turn at a part of a layer. */
    struct {
        size_t output;
        forward_layer *layer; /* NULL: the output matrix */
        forward_part part;
        const layer_metrics *metrics; /* of the layer's rows; NULL: none are wanted */
        rounded_weight *weights;
        size_t n_weights;
    } at;
} calibrator;

/* Makes the tables of tensors. What they take is freed with calibrator_drop_tensors, also after a failure. */
bool calibrator_list_tensors(calibrator *c, gq_error *e);
void calibrator_drop_tensors(calibrator *c);
/* The calibration's number of a tensor; SIZE_MAX: it is not written. */
size_t calibrator_number_of(const calibrator *c, const model_tensor *t);
tensor_progress *calibrator_progress_at(const calibrator *c, size_t output, size_t tensor);
/* How many matrices of a tensor are rounded for the output whose turn it is, which are the first; UINT64_MAX: none
 * is left, or it is not calibrated. */
uint64_t calibrator_matrices_done(const calibrator *c, const model_tensor *t);
/* Records the figures of a tensor whose matrices are all rounded, and the mean squares of its inputs, which are
 * freed. */
bool calibrator_record(calibrator *c, size_t output, size_t number, gq_error *e);

/* What follows is a piece of work that is predicted to take so many seconds. */
void calibrator_begin_piece(calibrator *c, double seconds);
calibrate_cost calibrator_cost_of(const calibrator *c, size_t output, const model_tensor *t);
/* The costs of a site's inputs and of their Cholesky factor, of so many of its matrices. */
calibrate_cost calibrator_site_cost(const calibrator *c, const site *s, size_t matrices);
/* Where a sample notes what a tensor takes. */
calibrate_timing *calibrator_timing_of(calibrator *c, const model_tensor *t);
