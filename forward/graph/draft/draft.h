/* Prediction blocks (MTP, nextn): what stands behind a model's layers and predicts a token more. Such a block reads the
 * state that the layers leave for a token, and the embedding of the token that came next; both pass a norm, one matrix
 * makes one state of them, a layer changes that, and a norm and the output matrix make logits of it. At position p it has
 * the state of position p - 1 and the token of p, and predicts that of p + 1, as the model does there: so their choices
 * can be compared. At a window's first position there is no state before: it is 0, as at the beginning of a text.
 *
 * A block is a forward_model of one layer: it is run with the functions of block.h and layer.h. Where a model has several
 * blocks each is run with the model's own states, as llama.cpp feeds them a text.
 */
#pragma once

#include "forward/graph/block.h"
#include "forward/graph/forward.h"

/* Sets up the blocks that the file has. Those of a kind that nobody has said how to run, or that cannot be run as their
 * tensors are, are left out with a warning; without memory it fails. To be called once. */
bool forward_model_find_drafts(forward_model *m, warning_list *warnings, gq_error *e);
/* The blocks that are set up, and one of them, which is freed with the model. */
size_t forward_model_drafts(const forward_model *m);
const forward_model *forward_model_draft(const forward_model *m, size_t i);
/* The model that a block belongs to; NULL: it is no block. */
const forward_model *forward_draft_of(const forward_model *m);
/* The number of a block's only layer. */
size_t forward_draft_layer(const forward_model *draft);
/* Whether the output matrix is the block's own, and not the model's. */
bool forward_draft_has_head(const forward_model *draft);
/* y[state]: what a block begins with. b: a batch of the block's; ids: its tokens; x[width]: states behind the model's last
 * layer. */
bool forward_draft_enter(forward_batch *b, const uint32_t *ids, const float *x, size_t stride, float *y,
                         size_t y_stride, gq_error *e);
