/* Shared by the routed feed-forward part (experts.c) and its router (router.c). */
#ifndef GQ_FORWARD_EXPERTS_H
#define GQ_FORWARD_EXPERTS_H

#include "forward/layer_part.h"

typedef struct experts_numbers {
    size_t experts, used;       /* used: experts per token */
    size_t groups, groups_used; /* 0 or 1 groups: all experts are candidates */
    router_function function;   /* makes weights of the router's values */
    bool is_late;               /* of those of the chosen alone */
    bool is_normalised;         /* the weights' sum is made 1 */
    float scale;                /* of the weights; 1: none */
} experts_numbers;

typedef struct experts_layer {
    size_t width; /* features that experts read and give: the model's, or of a smaller space */
    size_t ff, shared_ff, dense_ff; /* rows of gate and up, also of what stands beside; 0: there is none */
} experts_layer;

/* Token t's k-th expert is chosen[t * used + k]. Sorted by expert, expert e has the places routed_begin[e] to
 * routed_begin[e + 1] - 1 of routed_token and routed_weight. */
typedef struct experts_scratch {
    uint32_t *chosen, *routed_token, *routed_begin;
    float *chosen_weight, *routed_weight;
    float *group_score; /* [threads][groups] */
    float *input;       /* [width][stride]: what experts read, where it is not the part's input; else NULL */
} experts_scratch;

/* A layer that is run. */
typedef struct experts_run {
    forward_batch *b;
    const experts_numbers *n;
    const experts_layer *l;
    const experts_scratch *own;
    const float *in; /* what experts read, and its stride */
    size_t in_stride;
    float *sum, *work; /* rows of what they give, which may be b->part; memory for one expert */
} experts_run;

/* Chooses the experts of all tokens from what flows into the router, and sorts the tokens by expert. */
bool experts_route(experts_run *r, const float *x, size_t stride);

#endif
