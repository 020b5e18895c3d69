/* MTP layers (multi-token prediction, nextn), which follow a model's layers and predict one more token. An
 * MTP layer reads the hidden state after the last layer and the embedding of the next token. Each passes a
 * norm, one matrix combines them, a transformer layer follows, and a norm and the output matrix give logits.
 * At position p it reads the hidden state of position p - 1 and token p, and predicts token p + 1, as the
 * model does there, so that their choices can be compared. The hidden state before a window's first position
 * is 0, as at the beginning of a text.
 *
 * An MTP layer is a forward_model of one layer, run with the functions of block.h and layer.h. If a model has
 * several MTP layers each is run with the model's own hidden states, as llama.cpp feeds them a text. */
#pragma once

#include "forward/graph/attention/scores.h"
#include "forward/graph/block.h"
#include "forward/graph/forward.h"
#include "forward/graph/layer.h"

/* Draft models for speculative decoding that have a file of their own and read activations of their target
 * model: hidden states before some of its layers, or keys and values of some. Their layers are run with the
 * functions of block.h and layer.h. Embedding and output matrix are the target's where a draft has none of
 * its own.
 *
 * EAGLE-3 (draft_entry.c): one layer. At position p it reads one hidden state of width D computed from the
 * target's, followed by the embedding of token p + 1: 2 D rows. Both pass a norm; together they are the input
 * of queries, keys and values. The layer's output predicts token p + 2. When the draft continues by itself,
 * its own output replaces the hidden state computed from the target's.
 *
 * DFlash and DSpark (dflash.c): a block of tokens at once.
 *
 * Assistants of Gemma 4 (assistant.c): at position p the embedding of its token and the target's hidden state
 * behind its last norm at p - 1 become one hidden state of width D. Layers attend to the target's keys and
 * values of the positions before p. Their output predicts token p + 1 and the hidden state for the next
 * token, which is drafted at the same position. */

/* A source of the draft's input for each token: the hidden state before a layer of the target, or after its
 * last one if `layer` is the number of layers; or the keys, followed by the values, of a layer. */
typedef struct draft_source {
    bool is_keys;
    size_t layer, rows;
} draft_source;
enum { DRAFT_SOURCES = 64 };
typedef struct draft_sources {
    size_t n, rows; /* rows: of all, one source's behind another's */
    draft_source of[DRAFT_SOURCES];
} draft_sources;
const draft_sources *forward_draft_sources(const forward_model *draft);

/* Copies keys and values of the batch that a layer is run on, as an observer sees them: rows[n][stride] of
 * its tokens. */
void forward_scores_keys(const forward_scores *s, float *rows, size_t stride);
/* g[D]: one hidden state computed from x[rows of all sources]. */
bool forward_draft_fuse(forward_batch *b, const forward_layer *l, const float *x, size_t stride, float *g,
                        size_t g_stride, gq_error *e);
/* y: the embeddings of n tokens, of as many columns as its matrix has. Ids that it lacks are as 0. */
bool forward_draft_embed(const forward_model *draft, const uint32_t *ids, size_t n, float *y, size_t stride,
                         gq_error *e);

/* Sets up the MTP layers of the file. Unsupported ones, and those whose tensors do not fit, are left out with
 * a warning; only missing memory is a failure. To be called once. */
bool forward_model_find_mtp_layers(forward_model *m, warning_list *warnings, gq_error *e);
/* The MTP layers that are set up, and one of them, which is freed with the model. */
size_t forward_model_mtp_layers(const forward_model *m);
const forward_model *forward_model_mtp_layer(const forward_model *m, size_t i);
/* The model that an MTP layer belongs to; NULL: it is not an MTP layer. */
const forward_model *forward_mtp_of(const forward_model *m);
/* The number of its only layer. */
size_t forward_mtp_layer(const forward_model *draft);
/* Whether it has an output matrix of its own, in place of the model's. */
bool forward_mtp_has_head(const forward_model *draft);
/* y[features]: the input of an MTP layer. b: a batch of its model; ids: its tokens; x[width]: hidden states
 * after the model's last layer. */
bool forward_mtp_enter(forward_batch *b, const uint32_t *ids, const float *x, size_t stride, float *y,
                       size_t y_stride, gq_error *e);

/* DFlash and DSpark drafts, which predict a block of tokens at once. A block begins with a known token, the
 * anchor, followed by mask tokens. In each layer its tokens attend to each other and to keys and values
 * computed from the target's hidden states, one for each position before the anchor. Each mask predicts the
 * token in its place; with DSpark's anchors that predict, each position predicts the next one.
 *
 * A batch has one window: hidden states of the target, of position 0 on, and blocks behind them. */

typedef struct dflash_shape {
    size_t tokens, drafted; /* of a block */
    size_t first;           /* the position in a block that predicts the first of them */
    uint32_t mask;
} dflash_shape;
/* The shape of blocks of `most` tokens, or of fewer if the model was not trained for so many. */
dflash_shape forward_dflash_shape(const forward_model *draft, size_t most);

/* Places `hidden_states` hidden states and, behind them, a block of `tokens` tokens for each anchor's position,
 * which is at most `hidden_states`. The batch's context has room for all and is longer than any position. */
typedef struct dflash_blocks {
    size_t hidden_states, tokens, n;
    const uint32_t *positions;
} dflash_blocks;
void forward_dflash_place(forward_batch *b, const dflash_blocks *p);
/* The hidden state before the first layer, x[2 D]: the blocks' tokens, as forward_draft_embed gives them, are
 * in columns from `hidden_states` on; g[D]: the hidden states. */
void forward_dflash_enter(forward_batch *b, const dflash_blocks *p, const float *g, size_t g_stride, float *x,
                          size_t stride);

/* The tokens that blocks propose. */
typedef struct dflash_ends {
    const float *normed; /* [D][stride]: column i * step + j predicts the i-th token of block j */
    size_t stride, step, blocks, drafted;
    const uint32_t *anchors; /* the token that each block begins with */
    const int64_t *ids;      /* the target's token of each of the draft's; NULL: the same */
} dflash_ends;
enum { DFLASH_NONE = UINT32_MAX }; /* a token that the target cannot have */
/* tokens[blocks][drafted]. t: a tile of the draft's. */
bool forward_dflash_choose(forward_batch *b, forward_tile *t, const dflash_ends *of, uint32_t *tokens,
                           gq_error *e);

/* Drafts that read the keys and values of a target's last layers: Gemma 4's assistants. */

/* The input x[D] of an assistant, whose first layer is l, from both[2 W], embeddings and hidden states of the
 * target. */
bool forward_assistant_enter(forward_batch *b, const forward_layer *l, const float *both, size_t stride,
                             float *x, size_t x_stride, gq_error *e);
/* h[W]: the hidden states for the next tokens, of normed[D]. */
bool forward_assistant_leave(forward_batch *b, const forward_layer *l, const float *normed, size_t stride,
                             float *h, size_t h_stride, gq_error *e);
/* Lets no position of the batch's texts see its own keys; to be called when they are cut (forward_batch_cut). */
void forward_assistant_cut(forward_batch *b);
