/* What quants are asked besides a text: to continue prompts as the base model does, and to choose answers; drafts are tried on
 * such texts, too (drafted.h). They are packed into windows of their own, as conversations are (study/sweep/chats.h),
 * with weights only where models are asked, and run as the evaluation's text is. */
#pragma once

#include "study/evaluate/side_by_side.h"
#include "study/sweep/chats.h"

typedef struct asked_texts {
    text_windows windows;
    token_limits limits;
    windows_packer packer;
    size_t *begins; /* where each one's first token that counts is in the windows */
    size_t n, capacity;
} asked_texts;

/* Begins with no text. s: how models will be run. */
void asked_begin(asked_texts *t, const side_by_side *s, size_t context);
void asked_free(asked_texts *t);
/* Adds a text, of which the tokens from `first` on are asked for. */
bool asked_add(asked_texts *t, const uint32_t *ids, size_t n, size_t first, gq_error *e);
/* The position among the scored ones that predicts a token of the windows. */
size_t asked_position(const asked_texts *t, size_t token);
/* Raises *peak to what running these texts takes, with the scores of s beside them. */
bool asked_add_peak(const asked_texts *t, const side_by_side *s, uint64_t *peak, gq_error *e);
/* Runs the first n models of s. The likeliest token is kept, too, of the first `tops` of them. */
bool asked_run(const asked_texts *t, const side_by_side *s, size_t n, size_t tops, scores *to, gq_error *e);

/* Raises *peak to the bytes that both below take at most, for s->windows and their scores are held beside. False: a
 * prompt or a question is none. */
bool asked_bounds(const side_by_side *s, size_t prompts, const gq_question *questions, size_t n,
                  uint64_t *peak, gq_error *e);
/* s: how the models are run, with the windows of the text, of which prompts are the beginnings. Both return an
 * array with one for each model, malloc'ed; NULL: *e says why. */
gq_continued *asked_continue(const side_by_side *s, size_t prompts, gq_error *e);
gq_chosen *asked_choose(const side_by_side *s, const gq_question *questions, size_t n, gq_error *e);
