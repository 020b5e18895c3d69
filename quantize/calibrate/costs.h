/* What a calibration is predicted to take, piece by piece: what its progress is counted by. The plan computes
 * it (quantize/plan/calibration_time.c), with the rates of its forecast where there is one. */
#ifndef GQ_CALIBRATE_COSTS_H
#define GQ_CALIBRATE_COSTS_H

#include <stdlib.h>

/* Seconds of a tensor for an output, of all its matrices. What a site is gathered for is counted with the
 * first of its tensors. */
typedef struct calibrate_cost {
    double look, moments, root; /* running both streams up to the site; adding moments; making their root */
    double search, feedback, checks; /* rounding both ways, and comparing them on held-back tokens */
} calibrate_cost;

static inline double calibrate_cost_rounding(const calibrate_cost *c) {
    return c->search + c->feedback + c->checks;
}

typedef struct calibrate_costs {
    calibrate_cost *tensors; /* output by output; NULL: unknown, and then so is all else */
    double pass;             /* a stream through a layer, with all tokens */
    double read;             /* reading a layer */
    double metrics;          /* of a layer's rows */
    double ahead;            /* the run of the original ahead */
    double embedding;        /* rounding the outputs' embeddings, before the first step */
    /* The seconds until a step ends: n_layers of the layers, one more with the output matrix. What is before
     * the first step, `ahead` and `embedding`, is in all of them. */
    double *ends;
    size_t n_steps;
    double plain; /* rounding what is not calibrated, which comes behind all that */
} calibrate_costs;

static inline void calibrate_costs_free(calibrate_costs *c) {
    free(c->tensors), free(c->ends);
    *c = (calibrate_costs){.n_steps = 0};
}

/* Returns the seconds until the step begins; n_steps: until all end. */
static inline double calibrate_costs_begin(const calibrate_costs *c, size_t step) {
    return !c->tensors ? 0 : step ? c->ends[step - 1] : c->ahead + c->embedding;
}

#endif
