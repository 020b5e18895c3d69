/* Drafts that have a file of their own and continue what another model computes, their target: its states before some of
 * its layers, or keys and values of some. Their layers are run with the functions of block.h and layer.h. Embedding and
 * output matrix are the target's where a draft has none of its own.
 *
 * EAGLE-3 (eagle.c): one layer. At position p it reads one state of width D made of the target's states, and the
 * embedding of the token of p + 1, which stands behind it: states of 2 D rows. Both pass a norm, and side by side they
 * flow into queries, keys and values. What the layer leaves predicts the token of p + 2. When the draft goes on by
 * itself, the state that its layer leaves takes the place of that made of the target's states.
 *
 * DFlash and DSpark (dflash.h): a block of tokens at once.
 *
 * Assistants of Gemma 4 (assistant.c): at position p the embedding of its token and the target's state behind its last
 * norm at p - 1 become one state of width D. Layers attend to the target's keys and values of the positions before p.
 * What they leave predicts the token of p + 1, and a state for the next token, which is drafted at the same position. */
#pragma once

#include "forward/graph/attention/scores.h"
#include "forward/graph/layer.h"

/* What is taken of each token: the state before a layer of the target, or behind its last one where `layer` is their
 * number; or keys, and values behind them, of a layer. */
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

/* Copies keys and values of the batch that a layer is run on, as an observer sees them: rows[n][stride] of its tokens. */
void forward_scores_keys(const forward_scores *s, float *rows, size_t stride);
/* g[D]: one state of x[rows of all sources]. */
bool forward_draft_fuse(forward_batch *b, const forward_layer *l, const float *x, size_t stride, float *g,
                        size_t g_stride, gq_error *e);
/* y: the embeddings of n tokens, of as many columns as its matrix has. Ids that it lacks are as 0. */
bool forward_draft_embed(const forward_model *draft, const uint32_t *ids, size_t n, float *y, size_t stride,
                         gq_error *e);
