/* The text that drafts are tried on, cut into pieces; the ways to draft by what is taken of a target (continued.h), and what
 * they have in common. Behind each piece a draft proposes GQ_DRAFTED tokens; then the models are run once on all pieces with
 * what was proposed behind them, as programs verify drafts. */
#pragma once

#include "forward/graph/draft/draft.h"
#include "study/evaluate/asked.h"
#include "study/sweep/sweep.h"

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

/* Windows that are run at once. */
typedef struct draft_batch {
    size_t first, tokens, windows, stride; /* first: its first token among all */
    float *taken;                          /* [rows of the draft's sources][stride] */
} draft_batch;

typedef struct continued_run {
    draft_texts *t;
    const model_source *file; /* the draft's */
    const forward_model *target;
    forward_model *draft;
    const draft_sources *sources;
    sweep sweep;
    size_t first_window; /* of those that are run now */
    draft_batch *batches;
    size_t n_batches;
    size_t passing;       /* the batch that a layer of the target is run on */
    size_t batch_windows; /* at most */
    int64_t *ids;         /* the target's token of each of the draft's; NULL: they are the same */
    void *own;            /* the method's */
} continued_run;

/* A kind of draft. Called when the target has been run, with its threads. */
typedef struct draft_method {
    const char *arch;
    bool (*begin)(continued_run *r, gq_error *e); /* once; also after a failure `end` follows */
    bool (*draft)(continued_run *r, draft_batch *b, gq_error *e);
    void (*end)(continued_run *r);
} draft_method;
extern const draft_method draft_method_eagle, draft_method_dflash, draft_method_assistant;

/* What methods have in common: sets a batch of the draft to the windows and texts of b. */
void draft_choose_batch(const continued_run *r, forward_batch *batch, const draft_batch *b);

/* One step of all drafts of a batch whose positions predict one token each, one after the other: which of a batch's
 * positions matter. Of step 0 they are all that predict a compared token, later the k-th drafted ones. */
typedef struct draft_step {
    size_t n;
    size_t *at, *predicts; /* position, and the token that it predicts */
    size_t *piece;         /* that gets it as its next one; SIZE_MAX: none does */
    uint32_t *token;       /* that was predicted, the target's */
    /* [columns][stride of n]: what flows into the output matrix; logits; the largest ones */
    float *picked, *logits, *best;
    forward_batch *head; /* of one token */
    forward_tile *tile;
} draft_step;
/* tokens: of a batch, at most. To be freed also after a failure. */
bool draft_step_new(draft_step *s, const continued_run *r, size_t tokens, gq_error *e);
void draft_step_free(draft_step *s);
/* behind: positions from one that predicts a token to that. */
void draft_step_pick(draft_step *s, const continued_run *r, const draft_batch *b, size_t k, size_t behind);
/* The likeliest token at each position, of normed[columns][stride]. */
bool draft_step_predict(draft_step *s, const continued_run *r, const float *normed, size_t stride,
                        gq_error *e);
/* Keeps these as choices and proposals. */
void draft_step_keep(const draft_step *s, const continued_run *r, size_t k);
