/* The interface of a part of a layer. A layer is a mixer (attention and what does its work: tokens see each
 * other) and a feed-forward part (each token by itself); either may be missing.
 *
 * A part is a file of its own that ends with one of these structs. A row of arch/ names the parts
 * that its models have, and each layer has one of them, which the part itself chooses by keys or tensors.
 * What a part reads from a model, what it knows of a layer and what it needs in a batch are structs of its
 * own, which nobody else looks into.
 */
#pragma once

#include "base/checked.h"
#include "forward/graph/attention/scores.h"
#include "forward/graph/batch.h"
#include "forward/graph/keys.h"
#include "forward/graph/rows.h"
#include "forward/graph/tensors.h"

struct layer_part {
    size_t model_bytes, layer_bytes; /* of its numbers: for the whole model, for each layer; zero at first */

    /* Sets is_own[i] for the layers that have this part. Only called where the row has another part behind
     * it, which takes the others; NULL: this part takes all layers. */
    void (*choose_layers)(const forward_model *m, key_reader *r, bool *is_own);
    /* Metadata into numbers, once a model, when all layers have their parts; may be NULL. */
    void (*read_keys)(forward_model *m, key_reader *r, model_part *p);
    /* Tensors that belong to no layer, once a model; may be NULL. */
    void (*find_model_tensors)(tensor_finder *f, model_part *p);
    /* A layer's tensors, which also tell how many rows some have; may be NULL. */
    void (*find_tensors)(tensor_finder *f, const part_spec *p);

    /* For a mixer: what flows into attn_output is cached between probes, in place of each product
     * (forward/stream/probe_cache.h). */
    bool keeps_inputs;

    /* Rows of the state, behind its width, that hold what later layers need of windows of `context` tokens;
     * may be NULL: none. Called when all tensors are known. Of a model's parts only one may have a number of
     * rows that depends on the context; it then has none with a context of 0. */
    uint64_t (*carried_rows)(const forward_model *m, const model_part *p, size_t context);
    /* Fills these rows, x, when the tokens have been embedded; may be NULL. ids: one per token. */
    bool (*embed)(forward_batch *b, const model_part *p, const uint32_t *ids, const float *x, float *carried,
                  size_t stride);

    /* Rows of `work` in a batch, each as long as the batch has tokens; may be NULL: none. */
    uint64_t (*scratch_rows)(const forward_model *m, const layer_spec *l, const part_spec *p);
    /* Other memory that it needs in a batch, into its struct in batch_own; may be NULL. Called twice: the
     * first time memory is only counted and pointers are NULL. */
    void (*lay_out)(forward_batch *b, const model_part *p, scratch *s);
    /* Fills that memory, once a batch; may be NULL. */
    bool (*prepare)(forward_batch *b, const model_part *p, gq_error *e);

    /* For a mixer that reports its scores (batch_scores): the rows of its weights that make queries, keys and
     * values, as forward_row_groups has them; may be NULL: none. */
    size_t (*row_groups)(const forward_model *m, const layer_spec *l, const part_spec *p,
                         forward_row_group *groups);

    /* For a tail: changes the state before a layer, between its parts, whose first one has left its input in
     * b->normed, and behind the last layer, x[state] to y[width]; may be NULL. */
    bool (*begin)(forward_batch *b, const part_spec *p, float *x, size_t stride);
    /* For an entry: what flows into the mixer in place of the state and its norm; may be NULL. */
    const float *(*flows_in)(forward_batch *b, const part_spec *p, size_t *stride);
    bool (*between)(forward_batch *b, const part_spec *p, float *x, size_t stride);
    bool (*finish)(forward_batch *b, const model_part *p, const float *x, size_t stride, float *y,
                   size_t y_stride);

    /* For what adds to products (switched.h): y += what stands beside a matrix of the layer gives for x, of all tokens
     * of the batch. */
    void (*add)(forward_batch *b, const part_spec *p, weight_slot s, const float *x, size_t x_stride,
                float *y, size_t y_stride);

    /* From what flows in, x[width], to b->part. False: b->e, or the observer's answer that this is the end. */
    bool (*run)(forward_batch *b, const part_spec *p, const float *x, size_t stride);
};

/* What a part may have that carries one state more: its rows, and the embedding in them. */
static inline uint64_t carries_state(const forward_model *m, const model_part *p, size_t context) {
    (void)p, (void)context;
    return m->sizes.width;
}
static inline bool carries_embedding(forward_batch *b, const model_part *p, const uint32_t *ids,
                                     const float *x, float *carried, size_t stride) {
    (void)p, (void)ids;
    batch_copy(b, carried, stride, x, stride, b->model->sizes.width);
    return true;
}

/* The states of a token: the streams that a tail of hyper-connections carries; 1 without a tail (NULL). */
static inline size_t model_streams(const forward_model *m, const model_part *tail) {
    return tail ? max(1, tail->kind->carried_rows(m, tail, 0) / m->sizes.width) : 1;
}
