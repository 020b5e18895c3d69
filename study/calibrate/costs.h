/* What a calibration is predicted to take, piece by piece: what its progress is counted by, and the seconds
 * that a forecast gives. Either the calibrator itself has been timed on a sample of the model's layers, or
 * operations are counted and taken at the speed of a usual processor. */
#pragma once

#include "base/callbacks.h"
#include "gguf/model.h"

/* Seconds of a tensor for an output, of all its matrices. What a site is gathered for is counted with the
 * first of its tensors. */
typedef struct calibrate_cost {
    double gather;   /* running both streams up to the site and adding to Hessians */
    double cholesky; /* computing their Cholesky factors */
    double round;    /* rounding in all ways, and comparing them on held-back tokens */
} calibrate_cost;

typedef struct calibrate_costs {
    calibrate_cost *tensors; /* output by output; NULL: unknown, and then so is all else */
    double pass;             /* a stream through a layer, with all tokens */
    double metrics;          /* of a layer's rows */
    double ahead;            /* the run of the base model ahead */
    double embedding;        /* rounding the outputs' embeddings, before the first step */
    /* The seconds until a step ends: n_layers of the layers, one more with the output matrix. What is before
     * the first step, `ahead` and `embedding`, is in all of them. */
    double *ends;
    size_t n_steps;
    double validation; /* behind all steps */
    double plain;      /* rounding what is not calibrated, which comes behind all that */
} calibrate_costs;

/* What a tensor of a sample took, for an output. The seconds of a site are with the first of its tensors. */
typedef struct calibrate_timing {
    double probes, hessian; /* running both streams up to the site; adding to Hessians */
    double cholesky;
    double round, checks; /* checks: the part of `round` in which ways were compared on held-back tokens */
    uint64_t gathered, factored; /* matrices */
    uint64_t rounded;            /* weights */
    uint64_t held;               /* tokens that the last matrix was compared on */
    bool chained;                /* rows count together */
} calibrate_timing;

/* Has the calibrator do a part of each layer, write nothing, and say what it took. Bytes that it makes mean
 * nothing. */
typedef struct calibrate_sample {
    size_t matrices, rows;     /* of a tensor, at most; all rows where they have a metric */
    calibrate_timing *tensors; /* output by output, zeros before */
    double *passes;            /* per layer: all passes of streams through it; zeros before */
    double metrics;            /* of rows, of all layers */
    size_t n_metrics;          /* layers with metrics */
} calibrate_sample;

struct calibration;

/* Fills *to, which is empty, by the operations. NULL in to->tensors: no memory. */
void calibrate_costs_guess(const struct calibration *job, calibrate_costs *to);
/* Likewise by timing the calibrator, as one process, on up to four layers: both streams, Hessians, Cholesky factors,
 * rounding and comparing as in the run, with a piece of the text, some rows of each matrix and some experts of
 * a layer. It takes a second or some, and longer where layers are large and threads few. false: it could not
 * be timed, and *to is empty. callbacks: told that a sample is measured, and asked whether to go on. */
bool calibrate_costs_measure(const struct calibration *job, const gq_callbacks *callbacks,
                             calibrate_costs *to);
void calibrate_costs_free(calibrate_costs *c);
/* Returns the seconds until the step begins; n_steps: until all end. */
static inline double calibrate_costs_begin(const calibrate_costs *c, size_t step) {
    return !c->tensors ? 0 : step ? c->ends[step - 1] : c->ahead + c->embedding;
}
