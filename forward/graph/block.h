/* Running one layer on a batch, and both ends of a model: the embedding before the first layer, the final
 * norm and the logits behind the last. */
#pragma once

#include "forward/graph/layer.h"

/* Replaces the file's embedding: rows for n ids, n x width floats, before they are scaled. */
typedef struct forward_rows {
    bool (*read)(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e);
    void *data;
} forward_rows;
/* x[state]: the residual stream before the first layer. ids: one per token of the batch; those beyond the
 * vocabulary are an error. rows NULL: those of the embedding, which are read from the file as needed. */
bool forward_embed(forward_batch *b, const forward_rows *rows, const uint32_t *ids, float *x, size_t stride,
                   gq_error *e);

/* The sublayers of a layer that are run. Running one after the other gives the same bits as the whole. */
typedef enum forward_sublayers {
    FORWARD_ATTENTION = 1,
    FORWARD_FFN = 2,
    FORWARD_WHOLE = 3
} forward_sublayers;
/* x becomes the residual stream after this sublayer of the layer that l holds; a single sublayer is an error where
 * the model does not split. Inf or NaN in the input of weights is an error that names them. observer may be
 * NULL. */
bool forward_block(forward_batch *b, const forward_layer *l, forward_sublayers which, float *x, size_t stride,
                   const forward_observer *observer, gq_error *e);
/* normed[width]: the output matrix's input, of the residual stream after the last layer. x stays. May be done
 * in place. */
bool forward_final(forward_batch *b, const float *x, size_t stride, float *normed, size_t normed_stride,
                   const forward_observer *observer, gq_error *e);
/* The norm behind the last layer of `of`, the batch's model or the one that it belongs to. */
bool forward_norm_last(forward_batch *b, const forward_model *of, const float *x, size_t stride,
                       float *normed, size_t normed_stride, gq_error *e);
/* z[rows of the tile][tokens]: final logits (scaled, capped) of `tokens` tokens, any of any batch, as
 * forward_final left them. */
bool forward_logits(forward_batch *b, const forward_tile *t, const float *normed, size_t normed_stride,
                    size_t tokens, float *z, size_t stride, gq_error *e);

/* Pools each window of the batch: `normed` is what forward_final gave. Then the model's dense matrices
 * follow, in binary64. to: [windows][forward_sizes.embedded]; a vector's length says nothing. */
bool forward_pool(forward_batch *b, const float *normed, size_t stride, double *to, gq_error *e);
