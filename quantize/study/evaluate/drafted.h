/* What a smaller model drafts and how much of it the evaluated models accept, both greedily: the draft proposes its
 * likeliest tokens one after another, and a model accepts them as long as they are its own likeliest ones.
 *
 * The text is cut into pieces. Behind each piece the draft proposes GQ_DRAFTED tokens; then the models are run once on
 * all pieces with what was proposed behind them, as programs verify drafts. */
#ifndef GQ_EVALUATE_DRAFTED_H
#define GQ_EVALUATE_DRAFTED_H

#include "quantize/study/evaluate/asked_texts.h"

typedef struct drafter {
    runner own;            /* its file, and its model where that runs by itself */
    bool continues_states; /* it continues states of the target instead (eagle.h) */
} drafter;

/* Opens a draft for a target, which stays open as long. One of another vocabulary, or of a kind that is not run, is
 * an error that names it. path: it stays the caller's. */
bool drafter_open(drafter *d, const char *path, const runner *target, gq_error *e);
/* Bytes that an EAGLE-3 draft takes for the states of so many tokens of a text, which are all held; else 0. */
uint64_t drafter_bytes(const drafter *d, const runner *target, uint64_t tokens);
void drafter_close(drafter *d); /* also one of zeros */

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

/* s: how models are run, with the windows of the text. Returns an array with one for each model, malloc'ed; NULL: *e
 * says why. */
gq_drafted *drafted_run(const side_by_side *s, const drafter *d, gq_error *e);

#endif
