/* Compares the logits of a base model and its quants at a batch of positions of a text, as llama-perplexity
 * --kl-divergence does.
 *
 *     kld *d = kld_new(positions, quants, pool, &e);
 *     kld_start(d, positions, right);             // the token that stands there, for each
 *     kld_tile(d, 0, 256, logits, stride);        // tokens 0 to 255 of the vocabulary
 *     kld_tile(d, 256, 256, logits, stride);      // and so on, in order
 *     kld_figures f = kld_at(d, position, model);
 *
 * Nobody needs all logits at once: per position and model a running maximum and sums relative to it are kept.
 * With z and w for the base model's and a quant's logits, p for the base model's probabilities, and Z, W for
 * the logarithms of their sums of exponentials, the KL divergence is
 *
 *     sum p (log p - log q) = sum p (z - w) - Z + W
 *
 * All in binary64, each position by itself and the vocabulary in order: the same figures for any number of
 * threads, and on any machine. */
#pragma once

#include "base/error.h"
#include "base/threads.h"
#include "forward/stream/head.h"
#include "forward/stream/job.h"

typedef struct kld kld;

/* For at most `positions` positions, by the threads of a pool (NULL: the caller's alone), which lives as
 * long. Model 0 is the base model, 1 to `quants` are its quants. NULL: no memory. */
kld *kld_new(size_t positions, size_t quants, threads_pool *pool, gq_error *e);
uint64_t kld_bytes(size_t positions, size_t quants); /* bytes that kld_new takes */
void kld_free(kld *d);
void kld_start(kld *d, size_t positions, const uint32_t *right);
/* Does both, for the positions from, ..., from + n - 1 of so many windows of a job, from `first` on; the
 * right token of a position is the next one. */
kld *kld_of_windows(const forward_job *j, size_t first, size_t windows, size_t from, size_t n, size_t quants,
                    threads_pool *pool, gq_error *e);
/* Per model the logits of `rows` tokens from `first` on: position t of row r at [r * stride + t]. */
void kld_tile(kld *d, uint32_t first, uint32_t rows, const float *const *logits, size_t stride);

typedef struct kld_figures {
    double log_p;   /* logarithm of the probability of the right token */
    double log_sum; /* logarithm of the sum of the exponentials of all logits */
    double kld;     /* from the base model, in nats; 0 for the base model. NaN: logits were not finite */
    uint32_t top;   /* the likeliest token */
} kld_figures;
/* To be called when all of the vocabulary has passed. */
kld_figures kld_at(const kld *d, size_t position, size_t model);

/* Compares the streams' predictions of the next token with the first stream's, at each position of a text
 * from which its model predicts one (forward_predicts_from), windows in order. */

typedef struct forward_predictions {
    const forward_job *job;
    const forward_model *model;
    /* Called for each position whose next token counts. position: its number for kld_at; next: that of the
     * token among the job's. */
    bool (*at)(void *data, const kld *d, size_t position, size_t next, double weight, gq_error *e);
    bool (*block)(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e); /* as in forward_head */
    void *data;
} forward_predictions;
/* n: streams, the first of which the others are compared with. The hidden states stay. */
bool forward_run_predictions(forward_run *r, forward_stream *const *streams, size_t n,
                             const forward_predictions *to, gq_error *e);
