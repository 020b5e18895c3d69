/* The inputs of a site of a layer in two streams, the original model's and that of the model rounded so far:
 * moments of the pairs for each matrix, and the pairs themselves of windows that are held back.
 *
 * Both streams are run batch by batch from the states before a part of a layer up to the first site that has
 * weights left to round. Experts are gathered some at a time, as many as their moments fit beside each other.
 * Tokens that only the rounded model sends to an expert count with no difference between the streams.
 *
 * Where the weight's output is added to the state (forward_adds) the target can be the state after it, in
 * place of the output that the original's weight gave. Then both streams run to the end of the part, the
 * rounded one with the weight as it is in the file, and r is what its state lacks for the original's. A token
 * whose output is multiplied by a gate g, of those of all matrices that it meets, sum G, counts as g y with
 * g / G r: each matrix answers for its share, so that together they make up for all of it.
 */
#ifndef GQ_CALIBRATE_SITE_H
#define GQ_CALIBRATE_SITE_H

#include "graph/block.h"
#include "graph/layer.h"
#include "imatrix/moments.h"
#include "pass/stream.h"
#include "quantize/study/calibrate/job.h"

/* The gathered inputs of one matrix. */
typedef struct site_inputs {
    moments *moments;
    uint64_t group; /* the token group (pass/groups.h) that was added last */
    /* Held-back tokens, one after another, `features` values each: in the original model, in the other. Where
     * the state is the target `original` holds r, of as many values as the weight has rows. */
    float *original, *rounded;
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
    /* Seconds: what adding their moments took, and all else for a batch, the least of all batches, since the
     * first one touches new memory. */
    double moments, look;
    size_t batches;
} site;
/* Values of a held-back token in site_inputs.original. */
static inline size_t site_original_features(const site *s) {
    return s->adds != 0 ? s->weights[0]->ne[1] : s->features;
}
/* Matrices that are gathered at once, of those that are left; fit: as many as a rank's memory holds. Where
 * there are at least as many as ranks they are dealt. */
size_t site_matrices_at_once(size_t left, uint64_t fit, bool routed, size_t ranks);
/* The turn (comm_share_in_turn) in which the matrices from `first` on are dealt. */
uint64_t site_turn(const model_tensor *weight, size_t first);
/* The rank that has the inputs of the i-th matrix that was gathered, where they are dealt. */
int site_owner(const site *s, const gq_comm *comm, size_t i);
void site_free(site *s);
/* Hands over the gathered inputs of the i-th matrix; the caller owns them from now on. */
site_inputs site_take(site *s, size_t i);
void site_inputs_free(site_inputs *inputs);

/* The sizes that decide how much memory a site takes. */
typedef struct site_sizes {
    moments_shape shape;
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
/* Bytes of what is gathered, and of what is needed only while it is gathered. */
uint64_t site_bytes(const site_sizes *z);
uint64_t site_gathering_bytes(const site_sizes *z);
/* Bytes of a matrix's held-back tokens, of the original's side or the rounded model's. */
uint64_t site_held_bytes(const site_sizes *z, bool original);

typedef struct site_search {
    const calibrate_job *of;
    threads_pool *pool;
    forward_stream *original, *rounded;
    forward_layer *layer; /* NULL: what flows into the output matrix */
    forward_part part;
    /* Returns how many of a weight's matrices need no rounding any more; these are the first, as matrices are
     * rounded in order. As many as it has, or more: none is left. */
    uint64_t (*settled)(void *data, const model_tensor *t);
    /* Called when it is known which site it is, and as it is gathered: with the share that is done. May be
     * NULL. */
    void (*begun)(void *data, const site *s);
    void (*told)(void *data, double share);
    void *data;
} site_search;
/* Runs both streams and gathers one site; s->n_weights is 0 where none is left. The caller frees *s, also on
 * failure. */
bool site_gather(site *s, const site_search *search, gq_error *e);

#endif
