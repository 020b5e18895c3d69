/* DFlash and DSpark drafts (target.h), which fill a block of tokens at once. A block begins with a token that is known,
 * its anchor, and goes on with the token of masks. In each layer its tokens attend to keys and values made of the
 * target's states of all positions before the anchor, one state of each, and to each other. Each mask predicts the token
 * that stands in its place; with DSpark's anchors that predict, each position predicts the one behind it.
 *
 * A batch has one window: states of the target, of position 0 on, and blocks behind them. */
#pragma once

#include "forward/graph/draft/target.h"
#include "forward/graph/layer.h"

typedef struct dflash_shape {
    size_t tokens, drafted; /* of a block */
    size_t first;           /* the position in a block that predicts the first of them */
    uint32_t mask;
} dflash_shape;
/* Of drafts of `most` tokens, or of fewer where the model was not made for so many. */
dflash_shape forward_dflash_shape(const forward_model *draft, size_t most);

/* Places `states` states and, behind them, a block of `tokens` tokens for each anchor's position, which is at most
 * `states`. The batch's context has room for all and is longer than any position. */
typedef struct dflash_blocks {
    size_t states, tokens, n;
    const uint32_t *positions;
} dflash_blocks;
void forward_dflash_place(forward_batch *b, const dflash_blocks *p);
/* The state before the first layer, x[2 D]: the blocks' tokens, as forward_draft_embed gives them, are in columns from
 * `states` on; g[D]: the states. */
void forward_dflash_enter(forward_batch *b, const dflash_blocks *p, const float *g, size_t g_stride, float *x,
                          size_t stride);

/* What blocks propose. */
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
