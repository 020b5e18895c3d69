/* Temporaries of a batch, and what the parts of the graph do with them. */
#ifndef GQ_FORWARD_BATCH_H
#define GQ_FORWARD_BATCH_H

#include <stddef.h>

#include "forward/model.h"

/* Room for the struct that a part has in a batch. */
enum { BATCH_OWN_BYTES = 128 };
typedef union batch_own_bytes {
    max_align_t aligned;
    uint8_t bytes[BATCH_OWN_BYTES];
} batch_own_bytes;

struct forward_batch {
    const forward_model *model;
    size_t context, most_windows, windows;
    size_t tokens, stride; /* of the windows there are; stride is that of the temporaries */
    threads_pool *pool;
    matmul *products;
    void *memory;         /* all below */
    float *normed, *part; /* [width][stride]: what flows into a part of a layer, and what it gives */
    float *work;          /* [rows][stride]: inside a part */
    batch_own_bytes own[MODEL_PARTS]; /* a struct of each of the model's parts */
    /* during a call */
    const forward_layer *layer;
    const forward_site *site;
    forward_answer answer; /* the site's last */
    gq_error *e;
};

/* y = weight x (+ bias) of a slot of the layer. matrix: of those that the weight has. */
void batch_multiply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens);
/* Tell what flows into a matrix of weights of the layer; slots end with WEIGHT_SLOTS, absent ones are left
 * out. False: something in it is not finite, or the site's error; or its answer that this is the end. */
bool batch_site(forward_batch *b, const float *x, size_t stride, size_t features, size_t tokens,
                size_t matrix, const weight_slot *slots);
/* The same of experts: only these tokens of the batch, ascending. */
bool batch_site_routed(forward_batch *b, const float *x, size_t stride, size_t features,
                       const uint32_t *token, size_t tokens, size_t matrix, const weight_slot *slots);
bool batch_inputs(forward_batch *b, const forward_inputs *inputs);
/* An error that has just been told is the weights' fault, GQ_BAD_WEIGHTS: running them again ends there, too.
 * Returns false. */
bool batch_blame_weights(gq_error *e);
/* Whether activations are; else an error: `what` and the weight's name begin it. */
bool batch_finite(forward_batch *b, const char *what, const model_tensor *t, const float *x, size_t stride,
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
void batch_norm_slot(forward_batch *b, weight_slot s, const float *x, size_t x_stride, size_t features,
                     float *y, size_t y_stride);
/* rows x tokens: x += factor * y. */
void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor);

/* The struct of a part; it fits batch_own_bytes. */
static inline void *batch_own(forward_batch *b, const model_part *p) { return b->own[p->at].bytes; }

#endif
