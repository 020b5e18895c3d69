/* The text that drafts are tried on, cut into pieces. Behind each piece a draft proposes GQ_DRAFTED tokens; then the models
 * are run once on all pieces with what was proposed behind them, as programs verify drafts. */
#ifndef GQ_EVALUATE_DRAFT_TEXTS_H
#define GQ_EVALUATE_DRAFT_TEXTS_H

#include "quantize/study/evaluate/asked_texts.h"

enum { PIECE_TOKENS = 128 - GQ_DRAFTED }; /* at most */

/* A piece of the text: where in the windows its first position that is compared has its token, and where the first
 * drafted one stands. */
typedef struct draft_piece {
    size_t from, root;
} draft_piece;

enum { DRAFT_NONE = UINT32_MAX }; /* a token that no model chooses */

typedef struct draft_texts {
    asked_texts texts;
    draft_piece *pieces; /* texts.n of them */
    /* What the draft chooses: for each scored position (asked_position), and behind each piece GQ_DRAFTED tokens. */
    uint32_t *choices, *proposed;
    size_t positions;
} draft_texts;

/* Cuts the windows of s into pieces; also after a failure they are to be freed. */
bool draft_texts_begin(draft_texts *t, const side_by_side *s, gq_error *e);
void draft_texts_free(draft_texts *t);
/* Has a token, or DRAFT_NONE, as the k-th that is proposed behind a piece. vocabulary: the target's. */
void draft_texts_propose(draft_texts *t, size_t piece, size_t k, uint32_t token, size_t vocabulary);

#endif
