/* Temporaries of a batch, and what the sublayers of the graph do with them. */
#pragma once

#include <stddef.h>

#include "forward/graph/layer.h"
#include "forward/graph/model.h"

/* Memory laid out piece after piece in one allocation; without the allocation it is only counted, by the same
 * code. */
typedef struct scratch {
    uint8_t *bytes;   /* NULL: count */
    uint64_t at;      /* UINT64_MAX: more than can be counted */
    uint64_t threads; /* threads that memory is laid out for */
} scratch;

/* Memory for n times `of` elements of `size` bytes, aligned to 64 bytes, a line of the cache; NULL while
 * counting. It belongs to the allocation. */
void *scratch_take(scratch *s, uint64_t n, uint64_t of, uint64_t size);

/* Bytes for the struct that a sublayer has in a batch. */
enum { BATCH_OWN_BYTES = 128 };
typedef union batch_own_bytes {
    max_align_t aligned;
    uint8_t bytes[BATCH_OWN_BYTES];
} batch_own_bytes;

/* Values of a weight's matrix that may be cached: its input, in place of all that led to it; its output; the
 * summed output of all experts of a set, by the slot of their last matrix. */
typedef enum result_kind { RESULT_INPUTS, RESULT_OUTPUT, RESULT_SUM } result_kind;
typedef struct batch_values {
    float *x;
    size_t rows, stride, tokens;
} batch_values;
/* Cached results of a batch's earlier runs, which replace computing them again (forward/stream/run.h). */
typedef struct batch_results {
    bool (*recall)(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v);
    void (*store)(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v);
    bool awaits; /* a weight that will be replaced was used */
    bool lacks;  /* an expert was skipped */
} batch_results;

/* Tokens of a batch that are a text of their own. */
typedef struct batch_span {
    size_t first, tokens;
    size_t length; /* tokens of the text itself: others behind it fill the window */
} batch_span;

struct forward_batch {
    const forward_model *model;
    size_t context, most_windows, windows;
    batch_span *spans; /* one for each window, or more where windows hold several texts */
    size_t n_spans;
    uint32_t *span_of;     /* [window][FORWARD_TEXT_ALIGNMENT tokens of it]: which span they belong to */
    size_t tokens, stride; /* of the windows there are; stride is that of the temporaries */
    threads_pool *pool;
    matmul *products;
    uint64_t bytes; /* forward_batch_bytes of the model that it was made for */
    void *memory;   /* all below */
    float *normed,
        *output;        /* [width][stride]: input of a sublayer of a layer behind a norm, and its output */
    float *work;        /* [rows][stride]: inside a sublayer */
    float *first_mixed; /* [width][stride]: output of the first of two mixers; NULL: there is one */
    float *start;       /* [width][stride]: the layer's input, where layer_spec has uses for it */
    /* For layers that run on halves of windows (residual.h): [width][stride], the halves side by side; and
     * their tokens of the batch, for either half. */
    float *half;
    uint32_t *half_tokens[2];
    batch_own_bytes own[MODEL_SUBLAYERS]; /* a struct of each of the model's sublayers */
    /* during a call */
    const forward_layer *layer;
    const uint32_t *token; /* half_tokens of the columns that are run; NULL: all of the batch */
    size_t whole_context;  /* tokens of a window where `context` is half of it */
    float *residual;       /* the residual stream, x[features]; NULL outside of layers */
    size_t residual_stride;
    const forward_observer *observer;
    forward_answer answer;  /* the observer's last */
    bool unread;            /* weights could not be read: e says why, and what was computed means nothing */
    batch_results *results; /* NULL: there are none, and none are taken */
    gq_error *e;
};

/* y = weight x (+ bias) with a slot of the layer. matrix: which of the matrices that the weight has; 0 of
 * one. */
void batch_multiply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens);
/* The same of some of a weight's rows, without a bias. */
void batch_multiply_some(forward_batch *b, weight_slot s, uint64_t first, const float *x, size_t x_stride,
                         const batch_values *y);
/* The same for a matrix that alone has these inputs, which are reported first
 * (batch_report_inputs): all tokens of the batch. */
bool batch_apply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                 size_t y_stride);
/* Computes a matrix's input (RESULT_INPUTS), or the summed output of all experts of a set (RESULT_SUM): make(b,
 * data) fills the values, unless they are known from an earlier run of the batch. What makes inputs reports
 * none; experts report theirs, and a sum that is known is only taken where nobody looks. False: make's. */
typedef bool batch_maker(forward_batch *b, void *data);
bool batch_make(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v,
                batch_maker *make, void *data);
/* Reports x to the observer as the input of weights of the layer, as many features as their rows are long.
 * slots: ends with WEIGHT_SLOTS; weights that the layer lacks are left out, and one is there. False: b->e, a
 * value that is not finite or the observer's error; or the observer's answer FORWARD_END. */
bool batch_report_inputs(forward_batch *b, const float *x, size_t stride, const weight_slot *slots);
/* The same of what some of the tokens have. */
typedef struct batch_tokens {
    const uint32_t *token; /* of the batch, ascending; NULL: all in order */
    const float *gate;     /* as in forward_inputs; NULL: 1 */
    size_t n;
} batch_tokens;
bool batch_report_some(forward_batch *b, const float *x, size_t stride, const batch_tokens *tokens,
                       size_t matrix, const weight_slot *slots);
bool batch_inputs(forward_batch *b, const forward_inputs *inputs);
/* Marks the error that was just set as the weights' fault, GQ_BAD_WEIGHTS: running them again would end
 * there, too. Returns false. */
bool batch_blame_weights(gq_error *e);
/* Whether all of x[features][tokens] is finite; else b->e, which begins with `what` and the name of t (NULL:
 * none). */
bool batch_finite(forward_batch *b, const char *what, const model_tensor *t, const float *x, size_t stride,
                  size_t features, size_t tokens);
/* A norm of each of `groups` groups (0: one) of `features` rows by itself, of x (NULL: in place) to y. weight and
 * bias may be NULL. Strides 0: the batch's.
 * weight_stride: floats from a group's weights (and bias) to the next group's; 0: the same for all. one_weight:
 * a group has one weight for all its features. eps 0: the model's. */
typedef struct norm_groups {
    const float *x, *weight, *bias;
    float *y;
    size_t x_stride, y_stride, features, groups, weight_stride;
    size_t group_stride; /* rows from a group to the next; 0: features */
    bool one_weight;
    bool centers; /* a layer norm, whatever the model's are */
    bool to_unit; /* unit length takes the place of the norm (simd/elements.c) */
    float eps;
} norm_groups;
void batch_norm(forward_batch *b, const norm_groups *g);
/* The same in place, of rows of the batch's temporaries: with the same weights for each group (NULL: none);
 * or each group made of unit length. */
void batch_norm_groups(forward_batch *b, const float *weight, float *x, size_t features, size_t groups);
void batch_unit_groups(forward_batch *b, float *x, size_t features, size_t groups, float eps);
/* To rows of the temporaries, the norms of a token's hidden states, each with weights of its own. */
void batch_norm_streams(forward_batch *b, const float *x, size_t x_stride, const float *weight, float *y,
                        size_t streams);
/* The norm of a slot of the layer over all features of x; without weights where the layer has none there. */
void batch_norm_slot(forward_batch *b, weight_slot s, const float *x, size_t x_stride, size_t features,
                     float *y, size_t y_stride);
/* The same of what a sublayer gave, b->output, in place. */
void batch_norm_output(forward_batch *b, weight_slot s);
/* The text that a window's token belongs to. */
static inline batch_span batch_span_at(const forward_batch *b, size_t window, size_t token) {
    size_t steps = (b->context + FORWARD_TEXT_ALIGNMENT - 1) / FORWARD_TEXT_ALIGNMENT;
    return b->spans[b->span_of[window * steps + token / FORWARD_TEXT_ALIGNMENT]];
}

/* The rows of a sublayer in the residual stream of the layer that is run. */
static inline float *batch_carried(forward_batch *b, const model_sublayer *p) {
    return b->residual + p->carried * b->residual_stride;
}

/* The struct of a sublayer; it fits batch_own_bytes. */
static inline void *batch_own(forward_batch *b, const model_sublayer *p) { return b->own[p->at].bytes; }
