/* Temporaries of a batch, and what the parts of the graph do with them. */
#ifndef GQ_FORWARD_BATCH_H
#define GQ_FORWARD_BATCH_H

#include "forward/model.h"

struct forward_batch {
    const forward_model *model;
    size_t context, most_windows, windows;
    size_t tokens, stride; /* of the windows there are; stride is that of the temporaries */
    threads_pool *pool;
    matmul *products;
    void *room;                 /* all below */
    float *normed, *part;       /* [width][stride]: what flows into a part of a layer, and what it gives */
    float *work;                /* [rows][stride]: inside a part */
    float *cosine[2], *sine[2]; /* [local][pair][context]: with the magnitude; row length turn_stride */
    size_t turn_stride;
    float *temperature; /* [context]; NULL: none */
    float *scores;      /* per thread */
    size_t scores_each;
    /* routing: token t's k-th expert is chosen[t * used + k] */
    uint32_t *chosen, *routed_token, *routed_begin; /* per expert the tokens that go there */
    float *chosen_weight, *routed_weight;
    float *group_score; /* per thread */
    /* during a call */
    const forward_layer *layer;
    const forward_site *site;
    forward_answer answer; /* the site's last */
    gq_error *e;
};

enum { QUERIES = ELEMENT_SPAN }; /* that attention takes at once */

/* y = weight x (+ bias) of a slot of the layer. matrix: of those that the weight has. */
void batch_multiply(forward_batch *b, slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens);
/* Tell what flows into a matrix of weights of the layer; slots end with SLOTS, absent ones are left out.
 * False: something in it is not finite, or the site's error; or its answer that this is the end. */
bool batch_site(forward_batch *b, const float *x, size_t stride, size_t features, size_t tokens,
                size_t matrix, const slot *slots);
bool batch_inputs(forward_batch *b, const forward_inputs *inputs);
/* An error that has just been told is the weights' fault, GQ_BAD_WEIGHTS: running them again ends there, too.
 * Returns false. */
bool batch_blame_weights(gq_error *e);
/* Whether activations are; else an error: `what` and the weight's name begin it. */
bool batch_finite(forward_batch *b, const char *what, const gguf_tensor *t, const float *x, size_t stride,
                  size_t features, size_t tokens);
/* Norm of `groups` groups of rows, each for itself; y may be x. weight_step: from a group's weights to the
 * next's. */
typedef struct norm_groups {
    const float *x, *weight, *bias;
    float *y;
    size_t x_stride, y_stride, features, groups, weight_step;
} norm_groups;
void batch_norm(forward_batch *b, const norm_groups *g);
/* The norm of a slot of the layer over all features of x. */
void batch_norm_slot(forward_batch *b, slot s, const float *x, size_t x_stride, size_t features, float *y,
                     size_t y_stride);
/* rows x tokens: x += factor * y. */
void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor);

/* Turn the rotated values of each head: rows first, first + step, ... begin a head's. */
void batch_rope(forward_batch *b, float *x, size_t heads, size_t step);
bool batch_fill_rope(forward_batch *b, gq_error *e);
/* Rows times the temperature of each position, where the model has one. */
void batch_temper(forward_batch *b, float *x, size_t rows);

/* Attention proper: from q, k and v to what the heads give, side by side. Head h's rows begin at h * step. */
typedef struct attention_heads {
    const float *q, *k, *v, *k_tail; /* k_tail: rows behind k's that all heads share; or NULL */
    float *o;
    size_t heads, kv_heads, head, tail, value; /* head: rows of q; tail: of these, of k_tail */
    size_t k_step, v_step;
    const float *sinks; /* one per head, or NULL */
} attention_heads;
void batch_attend(forward_batch *b, const attention_heads *h);

/* The parts: from what flows in to `part`. */
bool batch_attention(forward_batch *b, const float *x, size_t stride);
bool batch_latent_attention(forward_batch *b, const float *x, size_t stride);
bool batch_ffn(forward_batch *b, const float *x, size_t stride);
bool batch_experts(forward_batch *b, const float *x, size_t stride);

/* Rows of `work` that each needs for a layer. */
uint64_t attention_rows(const forward_model *m, const layer_plan *l);
uint64_t latent_rows(const forward_model *m, const layer_plan *l);
uint64_t ffn_rows(const forward_model *m, const layer_plan *l);
uint64_t experts_rows(const forward_model *m, const layer_plan *l);

#endif
