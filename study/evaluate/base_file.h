/* llama.cpp's files of log-probabilities, which its perplexity program calls the base of a divergence: a text
 * as tokens, and for each scored position the logarithms of all next tokens' probabilities in 16 bits each.
 * Little-endian, without padding:
 *
 *     "_logits_"; u32 context, i32 vocabulary, i32 windows; i32 ids [windows][context]
 *     per window context - 1 - context / 2 rows, of the positions from context / 2 on, each
 *         f32 scale, f32 least; u16 code [vocabulary], and one more where the vocabulary is odd
 *
 * A logarithm is scale * code + least. Logits more than 16 below the largest have code 0, as the smallest of
 * the others has. The ids are those of the text: where a vocabulary begins texts with BOS, a model sees BOS
 * in place of each window's first, but the file keeps what stood there.
 */
#pragma once

#include "base/file.h"
#include "base/memory.h"
#include "forward/stream/kld.h"
#include "study/evaluate/figures.h"
#include "study/evaluate/logits_file.h"
#include "study/sweep/windows.h"

/* ---- reading ---- */

typedef struct base_file {
    gq_file file;
    uint32_t *ids; /* of all whole windows; malloc'ed */
    size_t context, vocabulary, windows;
    size_t windows_missing; /* announced by the file, but cut off */
} base_file;

/* Opens a file and reads its tokens. Every size is checked against the file's before anything is allocated; a
 * file that ends early has fewer windows, but at least one. */
bool base_file_open(base_file *f, const char *path, gq_error *e);
void base_file_close(base_file *f); /* also one of zeros */
/* Whether a file begins as one of log-probabilities. false, too, where it cannot be read. */
bool base_file_begins(const char *path);

/* How a position's codes are read. */
typedef struct base_row {
    float scale, least;
} base_row;

/* Scored positions of a file that are read together, a tile of the vocabulary at a time. */
typedef struct base_batch {
    size_t position, n; /* the first one, counted over all windows; how many */
    base_row *rows;     /* per position */
    double *log_p;      /* the logarithm of the right token's probability, per position */
    float *tile;        /* logarithms: position t of the tile's row r at [r * stride + t] */
} base_batch;

/* Takes memory for batches of at most so many positions, tiles of `rows` tokens and that stride. */
void base_batch_lay_out(base_batch *b, size_t positions, size_t rows, size_t stride, memory_ledger *l);
void base_batch_free(base_batch *b); /* also one of zeros */
/* Begins a batch of n positions. */
bool base_batch_start(base_batch *b, const base_file *f, size_t position, size_t n, gq_error *e);
/* Reads a tile: the tokens first ... first + rows - 1. ids: those of the text, all windows. */
bool base_batch_tile(base_batch *b, const base_file *f, const uint32_t *ids, size_t first, size_t rows,
                     size_t stride, gq_error *e);
/* Makes the tile a base model's: llama.cpp leaves probabilities below e^-16 out of a divergence from a file,
 * so their logarithms become so low that their exponentials vanish. */
void base_batch_leave_out(base_batch *b, size_t rows, size_t stride);

/* Returns the divergence from a base as llama.cpp defines it, sum p (log p - log q) over the probabilities p
 * that the file has. Their sum is not quite 1: it is e^z with z = `base`.log_sum, and kld_at has
 * divided by that. quant_sum: the logarithm of the sum of q; 0 where q comes from logits, whose sum is 1. */
double base_kld(const kld_figures *base, const kld_figures *quant, double quant_sum);

/* ---- writing ---- */

/* Range of a position's logits, which must be known before the first is written. */
typedef struct base_range {
    float most, least; /* logits */
    double log_sum;    /* of their exponentials */
} base_range;

typedef struct base_writer {
    logits_file file;
    uint64_t rows_at; /* offset of the first row */
} base_writer;

/* Begins a file; it gets its name when it is whole (logits_file_end). */
bool base_writer_start(base_writer *w, const char *path, bool replace, const text_windows *windows,
                       size_t vocabulary, gq_error *e);
/* Joins a file that another rank has begun. */
bool base_writer_join(base_writer *w, const char *path, bool replace, const text_windows *windows,
                      size_t vocabulary, gq_error *e);
/* Writes the codes of logits [rows][stride] of the vocabulary's tokens from `first` on, at n scored positions
 * from `position` on, whose ranges are given. */
bool base_writer_add(base_writer *w, const base_range *range, size_t position, size_t n, size_t first,
                     size_t rows, const float *logits, size_t stride, gq_error *e);

/* ---- files compared with each other ----
 * Nothing is run, so their models may be of any architecture, and any program may have written them. */

/* Checks that a quant's file has the base model's text, windows and vocabulary. */
bool base_scores_check(const base_file *base_model, const base_file *quant, gq_error *e);

/* Bytes of memory that it takes to compare n files at so many scored positions. */
uint64_t base_scores_bytes(size_t n, size_t positions);

/* Fills the scores of the first `windows` windows from n files: the base model's, 0, and those of its quants.
 * ids: the tokens of these windows. A divergence is as that of a model from a base (side_by_side.c), sum p
 * (log p - log q) over the probabilities p that the base model's file has. */
bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e);
