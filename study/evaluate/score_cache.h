/* What an evaluation keeps for the next one of the same base_model, text and settings: the scores of every
 * model at every position, from which all figures follow, and the base model's states behind its last layer,
 * from which its log-probabilities follow. So a quant is run once, and an evaluation that was stopped goes on
 * with the quants that it has not scored.
 *
 * Scores are in a GGUF without tensors, like measurements, with a text that says what they are of and one
 * array for each model, whose key is the checksum of the model's content. Each array has a checksum. States
 * are in a file beside it, whose head is written when they are whole. Both files can be removed at any time.
 */
#pragma once

#include "base/callbacks.h"
#include "forward/stream/stream.h"
#include "gguf/gguf.h"
#include "gguf/model.h"
#include "study/evaluate/figures.h"
#include "study/sweep/windows.h"

/* ---- the content of a model ----
 * A checksum of all that a model is. Unlike model_fingerprint, which says whether unfinished work may go on,
 * it reads every byte: what is kept under it vouches for no changed file. */

typedef struct content_sum {
    uint64_t bytes; /* of the tensors */
    uint32_t crc;   /* of pairs, names, types, shapes and weights as they are delivered */
} content_sum;

/* Returns about how many seconds that takes. */
double content_seconds(const model_source *m, int threads);
/* callbacks: asked whether to go on, and told how far it is; may be NULL. */
bool content_sum_up(const model_source *m, int threads, const gq_callbacks *callbacks, content_sum *to,
                    gq_error *e);

enum { SCORE_CACHE_OF = 200 };

/* ---- the base model's states ---- */

typedef struct state_cache {
    int fd; /* -1: none are kept */
    char *path;
    char of[SCORE_CACHE_OF];
    uint64_t bytes;
    bool whole; /* they are there */
} state_cache;

/* Makes the file ready: with an earlier run's states if they are whole, else with room for them. On failure
 * ->fd is -1. */
bool state_cache_open(state_cache *s, const char *path, const char *of, uint64_t bytes, gq_error *e);
/* Where a stream's states go, or are. */
state_slots state_cache_place(const state_cache *s);
/* They are whole now. sum: forward_stream_sum. */
bool state_cache_finish(state_cache *s, uint64_t sum, gq_error *e);
void state_cache_close(state_cache *s);

/* ---- scores ---- */

typedef struct score_cache {
    char *path;
    gguf_header *header; /* all that the file has */
    size_t positions;
} score_cache;

/* Writes what scores belong to: build, base_model, text and settings. */
void score_cache_name(const content_sum *base_model, const text_windows *windows, char of[SCORE_CACHE_OF]);
/* Reads what is kept, if it is of that; else begins anew, in place of what is there if it holds scores, too.
 * The file is written at once, so that one that cannot be written is told before the work. */
bool score_cache_open(score_cache *k, const char *path, const char *of, size_t positions, gq_error *e);
void score_cache_close(score_cache *k); /* also one of zeros */
/* Fills the scores of a model; divergence NULL: the base model's. false: they are not kept. */
bool score_cache_find(const score_cache *k, const content_sum *model, model_scores *to);
/* Adds a model's scores and writes the file. */
bool score_cache_add(score_cache *k, const content_sum *model, const model_scores *from, gq_error *e);
