/* Shared by the routed feed-forward sublayer (experts.c), its router (router.c) and what runs its matrices
 * (expert_set.c). */
#pragma once

#include "forward/graph/forward.h"
#include "forward/graph/sublayer.h"

typedef struct experts_numbers {
    size_t experts, used;       /* used: experts per token */
    size_t groups, groups_used; /* 0 or 1 groups: all experts are candidates */
    router_function function;   /* makes weights of the router's values */
    bool is_late;               /* it is applied to the chosen experts' values alone */
    bool is_normalized;         /* the weights' sum is made 1 */
    float scale;                /* of the weights; 1: none */
    /* Small experts, one for each `chunk_group` experts, of which a token takes `chunks_used`; 0 chunks:
     * there are none. What they give counts chunk_scale times. */
    size_t chunks, chunks_used, chunk_group;
    size_t chunk_repeats; /* times that a token may choose the same one */
    float chunk_scale;
    size_t tables;     /* the first layers, whose tables have the experts of each token id */
    size_t vocabulary; /* rows of a table */
} experts_numbers;

typedef struct experts_layer {
    size_t width; /* features that experts read and give: the model's, or of a smaller space */
    size_t ff, shared_ff, dense_ff; /* rows of gate and up, also of what stands beside; 0: there is none */
    size_t chunk_ff;
    const model_tensor *table; /* [token id][used]; NULL: the router chooses */
} experts_layer;

/* Token t's k-th expert is chosen[t * used + k]. Sorted by expert, expert e has the places begin[e] to
 * begin[e + 1] - 1 of `token` and `weight`. */
typedef struct experts_choice {
    uint32_t *chosen, *token, *begin;
    float *chosen_weight, *weight;
} experts_choice;

typedef struct experts_scratch {
    experts_choice routed, chunks;
    float *group_score; /* [threads][groups] */
    int32_t *table;     /* a layer's; NULL: there are none */
    float *input; /* [width][stride]: what experts read, where it is not the sublayer's input; else NULL */
} experts_scratch;

/* Experts of a layer that read the same: their matrices, and the tokens that are sent to each of them. */
typedef struct expert_set {
    const experts_choice *choice;
    weight_slot gate, up, both, down; /* both: gate and up in one, where the layer has that */
    size_t experts, ff;
} expert_set;

/* A layer that is run. */
typedef struct experts_run {
    forward_batch *b;
    const experts_numbers *n;
    const experts_layer *l;
    const experts_scratch *own;
    const float *ids; /* of the tokens, where some layers have tables */
    const float *in;  /* the experts' input, and its stride */
    size_t in_stride;
    float *sum, *work; /* rows of what they give, which may be b->output; memory for a group of experts */
} experts_run;

/* Chooses the experts of all tokens from the router's input, and sorts the tokens by expert. */
bool experts_route(experts_run *r, const float *x, size_t stride);

/* A set of experts of a layer, run on the tokens that meet each of them. */

/* Puts the sum of what the experts of a set make of r->in into r->sum. */
bool experts_run_set(const experts_run *r, const expert_set *set);
/* gate = act(gate) up, whose rows stand behind the gates'; act(gate) where experts have no gates. */
void experts_gate_rows(forward_batch *b, const activation_rule *act, batch_values gate);

/* The numbers of a dense feed-forward sublayer, with which another sublayer's begin that runs it (dflash.c). */

typedef struct ffn_layer {
    size_t ff; /* features in the middle */
} ffn_layer;

/* The rows by which routers choose experts, for callers that compare experts' inputs. */

/* Whether t is the router of a layer, and the experts that layer i's router chooses from; 0: it has none. */
bool forward_is_router(const forward_model *m, const model_tensor *t);
size_t forward_router_rows(const forward_model *m, size_t i);

/* rows[forward_router_rows][width] of layer i: what a state gives, but for its length, by which the router
 * chooses experts. The norm's weights before the router are in it, and only differences of experts. */
bool forward_router_read(const forward_model *m, size_t i, float *rows, gq_error *e);
