/* The interface of a sublayer of a layer. A layer is a mixer (attention and what does its work: tokens see each
 * other) and a feed-forward sublayer (each token by itself); either may be missing.
 *
 * A sublayer is a file of its own that ends with one of these structs. A row of arch/ names the sublayers that its
 * models have, and each layer has one of them, which the sublayer itself chooses by keys or tensors. What a sublayer
 * reads from a model, what it knows of a layer and what it needs in a batch are structs of its own, which
 * nobody else looks into. */
#pragma once

#include "base/checked.h"
#include "forward/graph/attention/scores.h"
#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/tensors.h"

/* Steps that treat rows of activations one by one: the pool's threads share them out. */

/* Rows of the batch's temporaries, for its tokens. */
static inline batch_values batch_rows(const forward_batch *b, float *x, size_t rows) {
    return (batch_values){x, rows, b->stride, b->tokens};
}

/* x += factor * y. */
void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor);
/* y = x. */
void batch_copy(const forward_batch *b, float *y, size_t y_stride, const float *x, size_t x_stride,
                size_t rows);
/* Copies rows that stand in groups: of each group of `group` rows, `each` ones from `first` on. */
typedef struct row_groups {
    size_t groups, group, first, each;
} row_groups;
void batch_sort_rows(forward_batch *b, const float *from, float *to, const row_groups *g);

/* x = f(x, number), f being a kernel: scaled, within -number and number, capped. */
void batch_change_rows(forward_batch *b, void (*f)(float *x, float number, size_t n), batch_values x,
                       float number);
void batch_scale(forward_batch *b, float *x, size_t stride, size_t rows, float factor);
/* Each row times a factor of its own, then plus a number of its own; either may be NULL. */
void batch_affine_rows(forward_batch *b, batch_values x, const float *factors, const float *added);
/* x *= y, element by element. y_stride 0: one row for all. */
void batch_multiply_rows(forward_batch *b, batch_values x, const float *y, size_t y_stride);
/* x = act(x) y; y NULL: x = act(x). */
void batch_gate_rows(forward_batch *b, const activation_rule *act, batch_values x, const float *y,
                     size_t y_stride);
/* gate = silu(gate) x, or sigmoid(gate) x. */
void batch_gate_states(forward_batch *b, float *gate, const float *x, size_t rows, bool is_sigmoid);
void batch_sigmoid_rows(forward_batch *b, float *x, size_t rows);
/* x = softplus(x + bias) of each row; bias NULL: 0. */
void batch_softplus_rows(forward_batch *b, float *x, const float *bias, size_t rows);
/* decay = e^(factor rate) of each row. */
void batch_decay_rows(forward_batch *b, float *decay, const float *rate, const float *factor, size_t rows);

struct sublayer_kind {
    size_t model_bytes, layer_bytes; /* of its numbers: for the whole model, for each layer; zero at first */

    /* Sets is_own[i] for the layers that have this sublayer. Only called where the row has another sublayer behind
     * it, which takes the others; NULL: this sublayer takes all layers. */
    void (*choose_layers)(const forward_model *m, key_reader *r, bool *is_own);
    /* Metadata into numbers, once a model, when all layers have their sublayers; may be NULL. */
    void (*read_keys)(forward_model *m, key_reader *r, model_sublayer *p);
    /* Tensors that belong to no layer, once a model; may be NULL. */
    void (*find_model_tensors)(tensor_finder *f, model_sublayer *p);
    /* A layer's tensors, from which some numbers of rows follow; may be NULL. */
    void (*find_tensors)(tensor_finder *f, const sublayer_spec *p);

    /* For a mixer: attn_output's input is cached between probes, in place of each product
     * (forward/stream/run.h). */
    bool keeps_inputs;

    /* Rows of the residual stream, behind its width, that hold what later layers need of windows of `context`
     * tokens; may be NULL: none. Called when all tensors are known. Of a model's sublayers only one may have a
     * number of rows that depends on the context; it then has none with a context of 0. */
    uint64_t (*carried_rows)(const forward_model *m, const model_sublayer *p, size_t context);
    /* Fills these rows, x, when the tokens have been embedded; may be NULL. ids: one per token. */
    bool (*embed)(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *x,
                  float *carried, size_t stride);

    /* Rows of `work` in a batch, each as long as the batch has tokens; may be NULL: none. */
    uint64_t (*scratch_rows)(const forward_model *m, const layer_spec *l, const sublayer_spec *p);
    /* Takes the sublayer's other memory in a batch, into its struct in batch_own; may be NULL. Called twice: the first
     * time memory is only counted and pointers are NULL. */
    void (*lay_out)(forward_batch *b, const model_sublayer *p, scratch *s);
    /* Fills that memory, once a batch; may be NULL. */
    bool (*prepare)(forward_batch *b, const model_sublayer *p, gq_error *e);

    /* For a mixer that reports its scores (batch_scores): the rows of its weights that make queries, keys and
     * values, as forward_row_groups has them; may be NULL: none. */
    size_t (*row_groups)(const forward_model *m, const layer_spec *l, const sublayer_spec *p,
                         forward_row_group *groups);

    /* For an entry: the mixer's input, in place of the normed residual stream; may be NULL. */
    const float *(*flows_in)(forward_batch *b, const sublayer_spec *p, size_t *stride);
    /* For a tail: changes the residual stream before a layer, between its sublayers, whose first one has left its
     * input in b->normed, and behind the last layer, x[features] to y[width]; may be NULL. */
    bool (*begin)(forward_batch *b, const sublayer_spec *p, float *x, size_t stride);
    bool (*between)(forward_batch *b, const sublayer_spec *p, float *x, size_t stride);
    bool (*finish)(forward_batch *b, const model_sublayer *p, const float *x, size_t stride, float *y,
                   size_t y_stride);

    /* For a sublayer that adds to products (LoRA adapters in the file, switched.c): y += the output of the
     * matrices beside a weight of the layer for x, for all tokens of the batch. */
    void (*add)(forward_batch *b, const sublayer_spec *p, weight_slot s, const float *x, size_t x_stride,
                float *y, size_t y_stride);

    /* From the input, x[width], to b->output. False: b->e, or the observer's answer that this is the end. */
    bool (*run)(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride);
};

/* For sublayers that carry one more hidden state: its rows, and the embedding in them. */
static inline uint64_t carries_hidden_state(const forward_model *m, const model_sublayer *, size_t) {
    return m->sizes.width;
}
static inline bool carries_embedding(forward_batch *b, const model_sublayer *, const uint32_t *,
                                     const float *x, float *carried, size_t stride) {
    batch_copy(b, carried, stride, x, stride, b->model->sizes.width);
    return true;
}

/* The hidden states of a token: the streams that a tail of hyper-connections carries; 1 without a tail
 * (NULL). */
static inline size_t model_streams(const forward_model *m, const model_sublayer *tail) {
    return tail ? max(1, tail->kind->carried_rows(m, tail, 0) / m->sizes.width) : 1;
}

/* Matrices with small ones beside them (graniteswitch): a pair for each adapter, and one for no adapter. A
 * product x with a matrix gets B (A x) added, of the pair of the token's adapter. A token of a list switches
 * its adapter on for itself and those behind it in its text; the embedding that it has is another token's. */

/* The token whose embedding this one has. */
uint32_t switched_id(const forward_model *m, uint32_t id);
