/* The steps of a calibration that can be switched on and off one by one, to measure what each brings. A new
 * step is a member of calibrate_step and a row in steps.c. The place that carries it out asks
 * calibration_does (settings.h), and adds what came of it to calibrate_figures (round.h). */
#pragma once

#include "base/error.h"

typedef enum calibrate_step {
    CALIBRATE_DAMPING,   /* by each column's own square, not by the mean of all (study/inputs/cholesky.c) */
    CALIBRATE_SWEEPS,    /* of descent behind a pass (codec/simd/descent.c) */
    CALIBRATE_STATE,     /* as target of weights whose output is added to it (site.h) */
    CALIBRATE_EMBEDDING, /* rounded by what its errors do to routers, or as the output matrix (embedding.h) */
    CALIBRATE_ROUTER,    /* fitted to the inputs that it gets now (router.h) */
    CALIBRATE_ROWS,      /* of queries, keys and values, one after another (metric.h) */
    CALIBRATE_RANDOM, /* some windows are drawn at random, for texts of other kinds (study/calibrate/calibration.c) */
    CALIBRATE_BALANCE,    /* of columns that are far from the others (balance.h) */
    CALIBRATE_TRIALS,     /* of a block's scales (codec/simd/block.c) */
    CALIBRATE_VALIDATION, /* of the whole model on held-out windows (validate.h) */
    CALIBRATE_STEPS
} calibrate_step;

typedef struct calibrate_step_row {
    const char *name; /* as users give it */
    const char *what; /* a line for reports */
    bool by_default;
} calibrate_step_row;
extern const calibrate_step_row calibrate_steps[CALIBRATE_STEPS];

/* Bit i is on where step i is done. */
typedef uint64_t calibrate_step_mask;
static inline calibrate_step_mask calibrate_step_bit(calibrate_step step) {
    return (calibrate_step_mask)1 << step;
}

/* Reads a list of steps, separated by commas: NAME or +NAME adds a step, -NAME takes one away, and `all`,
 * `none` and `default` stand for sets of them. Items go from left to right. A list that begins with a sign
 * changes the default; any other one begins with nothing. NULL or "": the default. */
bool calibrate_steps_take(calibrate_step_mask *mask, const char *list, gq_error *e);
/* Writes the names of a mask's steps, separated by ", ", or "none". malloc'ed; NULL: no memory. */
char *calibrate_steps_text(calibrate_step_mask mask, gq_error *e);

/* What a step did, summed over matrices. */
typedef struct calibrate_step_figures {
    uint64_t matrices;    /* on which it was tried */
    uint64_t kept;        /* of these, that were written with it */
    uint64_t compared;    /* of these, whose error with and without it was measured on held-back tokens: */
    double without, with; /* sums of relative squared errors, in the metric that the step makes small */
} calibrate_step_figures;
