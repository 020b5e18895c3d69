/* Rounds a matrix by the Hessian of its inputs, and plainly to compare; the result that does better
 * on held-back tokens is written. */
#pragma once

#include "forward/products/matmul.h"
#include "study/calibrate/calibration.h"
#include "study/calibrate/metric.h"
#include "study/inputs/hessian.h"

/* Why a matrix was encoded plainly. */
typedef enum round_reason {
    ROUND_CALIBRATED,
    ROUND_UNSEEN,     /* no token reached the matrix */
    ROUND_INDEFINITE, /* its Hessian has no Cholesky factor, however much it is damped */
    ROUND_UNCHECKED,  /* few tokens, and none held back */
    ROUND_WORSE,
    ROUND_FELL_BACK, /* validation of the whole model (validate.h) */
    ROUND_REASONS
} round_reason;
const char *round_reason_text(round_reason r);

/* The figures of a tensor's matrices, as in gq_rounding. */
typedef struct calibrate_figures {
    uint64_t matrices, plain, unchecked;
    double power, plain_error, written;
    uint64_t codes, clipped, tokens, width;
    float damp;
    uint32_t unused; /* so that no byte of it is without a value */
    calibrate_step_figures steps[CALIBRATE_STEPS];
} calibrate_figures;

/* A matrix to round, for the output whose turn it is, and what it is rounded by. */
typedef struct round_task {
    struct calibrator *c;
    size_t tensor; /* its number */
    uint64_t matrix;
    gq_comm *comm;        /* ranks that share the rows; NULL: this process has all */
    uint8_t *blocks_copy; /* gets a copy of the matrix's blocks; NULL: none is made */
    const cholesky *factored;
    layer_metrics metrics;    /* of the matrix's rows; n 0: all rows count by themselves */
    const float *mean_square; /* per column; NULL: no token was seen */
    /* Held-out tokens: [features][stride], of which `held` are tokens; in the base model, and in the rounded
     * one. */
    const float *base, *rounded;
    size_t held, stride;
    bool is_state;     /* `base` is what the output is to change by, [rows][stride] */
    bool is_embedding; /* rows of routers stand in for tokens (embedding.h) */
    bool
        is_worse; /* what this leads to was tried already: it has a higher KL divergence than plain encoding */
} round_task;

/* Adds the figures of a matrix to those of the tensor's matrices before it. */
void figures_add(calibrate_figures *to, const calibrate_figures *of);

/* Rounds and writes a matrix. *sums, which is zeros but for the width, gets its figures, *why the reason if
 * it is not calibrated. */
bool round_matrix(const round_task *t, calibrate_figures *sums, round_reason *why, gq_error *e);
