/* A site of a layer, where activations flow into weights, and its inputs in two streams, the base model's
 * and that of the model rounded so far: Hessians of the pairs for each matrix, and the pairs themselves of
 * windows that are held back. gather.h fills it. */
#pragma once

#include "forward/graph/layer.h"
#include "study/calibrate/calibration.h"
#include "study/inputs/hessian.h"

/* The gathered inputs of one matrix. */
typedef struct site_inputs {
    hessian *hessian;
    uint64_t group; /* the token group (forward/stream/stream.h) that was added last */
    /* Held-back tokens, one after another, `features` values each: in the base model, in the other. Where
     * the state is the target `base` holds r, of as many values as the weight has rows. */
    float *base, *rounded;
    size_t held;
} site_inputs;

typedef struct site {
    const model_tensor *weights[FORWARD_MOST_WEIGHTS];
    size_t n_weights; /* 0: nothing is left to round */
    size_t features, matrices;
    size_t first, end; /* matrices first to end - 1 were gathered */
    /* Of these, counted from `first`, the ones whose inputs this rank has. dealt: the others have the rest;
     * else all have all. */
    size_t own, own_end;
    bool dealt;
    bool routed, late;
    float adds;          /* forward_adds of the weight where the state is the target; 0: its own output is */
    site_inputs *inputs; /* one for each of them */
    /* Seconds: what adding to their Hessians took, and all else for a batch, the least of all batches, since the
     * first one touches new memory. */
    double hessian, probe;
    size_t batches;
} site;
/* Values of a held-back token in site_inputs.base. */
static inline size_t site_base_features(const site *s) {
    return s->adds != 0 ? s->weights[0]->ne[1] : s->features;
}
/* Matrices that are gathered at once, of those that are left; fit: as many as a rank's memory holds. Where
 * there are at least as many as ranks they are dealt. */
size_t site_matrices_at_once(size_t left, uint64_t fit, bool routed, size_t ranks);
/* The turn (comm_share_in_turn) in which the matrices from `first` on are dealt: those of one role anew in each layer. */
uint64_t site_turn(const model_tensor *weight, size_t first);
/* The rank that has the inputs of the i-th matrix that was gathered, where they are dealt. */
int site_owner(const site *s, const gq_comm *comm, size_t i);
void site_free(site *s);
/* Hands over the gathered inputs of the i-th matrix; the caller owns them from now on. */
site_inputs site_take(site *s, size_t i);
void site_inputs_free(site_inputs *inputs);

/* The sizes that decide how much memory a site takes. */
typedef struct site_sizes {
    hessian_shape shape;
    size_t matrices; /* gathered at once */
    size_t met;      /* matrices that a token meets: of experts some of all, of heads all that are gathered */
    size_t tokens;   /* of a batch, at most */
    size_t held;     /* tokens held back per matrix, at most */
    size_t repeats;  /* times that a matrix may meet a token */
    size_t taped;    /* tokens that a rank keeps until all have theirs; 0: there is one process */
    bool routed;
} site_sizes;
/* Returns forward_adds where the state after a weight is its target, else 0. */
float site_adds(const calibration_settings *s, const forward_model *m, const model_tensor *weight);
/* routed: the weight is of experts; late: as forward_inputs has it. met: matrices that a token then meets;
 * else it is not used. matrices: gathered at once. batch_windows: windows of a batch. */
typedef struct site_weight {
    const model_tensor *tensor;
    bool routed, late;
    size_t met, matrices;
    size_t taped; /* windows that a rank keeps */
} site_weight;
site_sizes site_sizes_of(const calibration_settings *s, const forward_model *m, const site_weight *w,
                         size_t batch_windows);
