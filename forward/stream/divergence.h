/* Compares the logits of an original and its copies, for a batch of positions in a text.
 *
 *     divergence *d = divergence_new(positions, copies, pool, &e);
 *     divergence_start(d, positions, right);             // the token that stands there, for each
 *     divergence_tile(d, 0, 256, logits, stride);        // tokens 0 to 255 of the vocabulary
 *     divergence_tile(d, 256, 256, logits, stride);      // and so on, in order
 *     divergence_figures f = divergence_at(d, position, model);
 *
 * Nobody needs all logits at once: per position and model a running maximum and sums relative to it are kept.
 * With z and w for the original's and a copy's logits, p for the original's probabilities, and Z, W for the
 * logarithms of their sums of exponentials, the divergence is
 *
 *     sum p (log p - log q) = sum p (z - w) - Z + W
 *
 * All in binary64, each position by itself and the vocabulary in order: the same figures for any number of
 * threads, and on any machine.
 */
#pragma once

#include "base/error.h"
#include "base/threads.h"
#include "forward/stream/head.h"
#include "forward/stream/job.h"

typedef struct divergence divergence;

/* For at most `positions` positions, by the threads of a pool (NULL: the caller's alone), which lives as
 * long. Model 0 is the original, 1 to `copies` are its copies. NULL: no memory. */
divergence *divergence_new(size_t positions, size_t copies, threads_pool *pool, gq_error *e);
uint64_t divergence_bytes(size_t positions, size_t copies); /* bytes that divergence_new takes */
void divergence_free(divergence *d);
void divergence_start(divergence *d, size_t positions, const uint32_t *right);
/* Does both, for the positions from, ..., from + n - 1 of so many windows of a job, from `first` on; the right token of
 * a position is the next one. */
divergence *divergence_of_windows(const forward_job *j, size_t first, size_t windows, size_t from, size_t n,
                                  size_t copies, threads_pool *pool, gq_error *e);
/* Per model the logits of `rows` tokens from `first` on: position t of row r at [r * stride + t]. */
void divergence_tile(divergence *d, uint32_t first, uint32_t rows, const float *const *logits, size_t stride);

typedef struct divergence_figures {
    double log_p;      /* logarithm of the probability of the right token */
    double log_sum;    /* logarithm of the sum of the exponentials of all logits */
    double divergence; /* from the original, in nats; 0 for the original. NaN: logits were not finite */
    uint32_t top;      /* the likeliest token */
} divergence_figures;
/* To be called when all of the vocabulary has passed. */
divergence_figures divergence_at(const divergence *d, size_t position, size_t model);

/* What streams predict for the next token, compared with what the first of them does: at each position of a text from which
 * its model predicts one (forward_predicts_from), windows in order. */

typedef struct forward_predictions {
    const forward_job *job;
    const forward_model *model;
    /* Called for each position whose next token counts. position: its number for divergence_at; next: that of the token among
     * the job's. */
    bool (*at)(void *data, const divergence *d, size_t position, size_t next, double weight, gq_error *e);
    bool (*block)(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e); /* as in forward_head */
    void *data;
} forward_predictions;
/* n: streams, the first of which the others are compared with. The states stay. */
bool forward_run_predictions(forward_run *r, forward_stream *const *streams, size_t n,
                             const forward_predictions *to, gq_error *e);
