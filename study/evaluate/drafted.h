/* What a smaller model drafts and how much of it the evaluated models accept, both greedily: the draft proposes its
 * likeliest tokens one after another, and a model accepts them as long as they are its own likeliest ones. */
#pragma once

#include "study/evaluate/draft_step.h"

typedef struct drafter {
    runner own;            /* its file, and its model where that runs by itself */
    bool continues_states; /* it continues what the target computes instead (continued.h) */
} drafter;

/* Opens a draft for a target, which stays open as long. One of another vocabulary, or of a kind that is not run, is
 * an error that names it. path: it stays the caller's. folder: whose vocabulary a draft's folder takes; NULL: the
 * target's. */
bool drafter_open(drafter *d, const char *path, const runner *target, const char *folder, gq_error *e);
/* Bytes that are held of a target's states for so many tokens of a text, where the draft continues them; else 0. memory:
 * of all. */
uint64_t drafter_bytes(const drafter *d, const runner *target, uint64_t tokens, uint64_t memory);
void drafter_close(drafter *d); /* also one of zeros */

/* The time that it takes as a multiple of that of running s, about, by the operations of both. */
double drafted_share(const side_by_side *s, const drafter *d);
/* s: how models are run, with the windows of the text. Returns an array with one for each model, malloc'ed; NULL: *e
 * says why. */
gq_drafted *drafted_run(const side_by_side *s, const drafter *d, gq_error *e);
