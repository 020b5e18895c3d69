/* What an evaluation keeps for the next one of the same original, text and settings: the scores of every
 * model at every position, from which all figures follow, and the original's states behind its last layer,
 * from which its log-probabilities follow. So a copy is run once, and an evaluation that was stopped goes on
 * with the copies that it has not scored.
 *
 * Scores are in a GGUF without tensors, like measurements, with a text that says what they are of and one
 * array for each model, whose key is the checksum of the model's content. Each array has a checksum. States
 * are in a file beside it, whose head is written when they are whole. Both files can be removed at any time.
 */
#ifndef GQ_INSPECT_KEPT_H
#define GQ_INSPECT_KEPT_H

#include "gguf/gguf.h"
#include "gguf/header.h"
#include "pass/stream.h"
#include "quantize/study/evaluate/content.h"
#include "quantize/study/evaluate/figures.h"
#include "quantize/study/sweep/windows.h"

enum { KEPT_OF = 200 };

/* ---- the original's states ---- */

typedef struct kept_states {
    int fd; /* -1: none are kept */
    char *path;
    char of[KEPT_OF];
    uint64_t bytes;
    bool whole; /* they are there */
} kept_states;

/* Makes the file ready: with an earlier run's states if they are whole, else with room for them. On failure
 * ->fd is -1. */
bool kept_states_open(kept_states *s, const char *path, const char *of, uint64_t bytes, gq_error *e);
/* Where a stream's states go, or are. */
forward_keep kept_states_place(const kept_states *s);
/* They are whole now. sum: forward_stream_sum. */
bool kept_states_finish(kept_states *s, uint64_t sum, gq_error *e);
void kept_states_close(kept_states *s);

/* ---- scores ---- */

typedef struct kept_scores {
    char *path;
    gguf_header *header; /* all that the file has */
    size_t positions;
} kept_scores;

/* Writes what scores belong to: build, original, text and settings. */
void kept_name(const content_sum *original, const text_windows *windows, char of[KEPT_OF]);
/* Reads what is kept, if it is of that; else begins anew, in place of what is there if it holds scores, too.
 * The file is written at once, so that one that cannot be written is told before the work. */
bool kept_scores_open(kept_scores *k, const char *path, const char *of, size_t positions, gq_error *e);
void kept_scores_close(kept_scores *k); /* also one of zeros */
/* Fills the scores of a model; divergence NULL: the original's. false: they are not kept. */
bool kept_scores_find(const kept_scores *k, const content_sum *model, model_scores *to);
/* Adds a model's scores and writes the file. */
bool kept_scores_add(kept_scores *k, const content_sum *model, const model_scores *from, gq_error *e);

#endif
