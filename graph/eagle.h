/* EAGLE-3 drafts: one layer that continues another model's states. At position p it reads one state of width D made of
 * the target's states before three of its layers, and the embedding of the token of p + 1; both pass a norm, and side by
 * side they flow into queries, keys and values. The state gets what attention and the feed-forward part give, a norm and
 * the output matrix make logits of it, of the token of p + 2. When the draft goes on by itself, the state that its layer
 * leaves takes the place of that made of the target's states.
 *
 * The layer is run with the functions of block.h and layer.h on states of 2 D rows: the state, and the embedding behind
 * it. Embedding and output matrix are the target's where the draft has none of its own. */
#ifndef GQ_GRAPH_EAGLE_H
#define GQ_GRAPH_EAGLE_H

#include "graph/block.h"

enum { EAGLE_LAYERS = 3 };

/* Sets up the draft of a target, of whose states its numbers have to fit. Both stay as long as the draft. */
forward_model *forward_eagle_new(const model_source *file, const forward_model *target, gq_error *e);
/* The layers of the target before which states are taken, ascending or not: EAGLE_LAYERS of them. */
const size_t *forward_eagle_layers(const forward_model *draft);
/* The model whose output matrix makes the draft's logits: itself or the target. */
const forward_model *forward_eagle_head(const forward_model *draft);
/* g[D]: what the layer begins with, of x[EAGLE_LAYERS x the target's width], one layer's states after another. */
bool forward_eagle_fuse(forward_batch *b, const forward_layer *l, const float *x, size_t stride, float *g,
                        size_t g_stride, gq_error *e);
/* y[D]: the embeddings of n tokens. */
bool forward_eagle_embed(const forward_model *draft, const uint32_t *ids, size_t n, float *y, size_t stride,
                         gq_error *e);

#endif
