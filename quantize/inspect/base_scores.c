/* Compares files of log-probabilities, a few positions and a tile of the vocabulary at a time. */
#include "quantize/inspect/base_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "forward/divergence.h"

/* Tokens of the vocabulary and positions that are in memory at once, of each file: 2 MiB. */
enum { TILE_ROWS = 8192, BATCH = 64 };

bool base_file_begins(const char *path) {
    gq_error unused;
    gq_file f;
    char magic[8];
    if (!gq_file_open(&f, path, &unused)) return false;
    bool is = gq_file_read(&f, 0, magic, sizeof magic, &unused) && !memcmp(magic, "_logits_", sizeof magic);
    gq_file_close(&f);
    return is;
}

bool base_scores_check(const base_file *original, const base_file *copy, gq_error *e) {
    const char *path = copy->file.path, *of = original->file.path;
    if (copy->vocabulary != original->vocabulary || copy->context != original->context)
        return gq_fail(e,
                       "%s: has windows of %zu tokens and a vocabulary of %zu, and %s windows of %zu and a "
                       "vocabulary of %zu; both must be of copies of one model, run on the same text",
                       path, copy->context, copy->vocabulary, of, original->context, original->vocabulary);
    size_t n = smaller(copy->windows, original->windows) * original->context;
    for (size_t i = 0; i < n; i++)
        if (copy->ids[i] != original->ids[i])
            return gq_fail(e, "%s: token %zu of its text is %u, and %u in %s; both must be of the same text",
                           path, i + 1, copy->ids[i], original->ids[i], of);
    return true;
}

/* The parts of all files that are in memory at once. */
typedef struct base_tiles {
    const base_file *files;
    size_t n;
    base_row *rows;       /* [file][BATCH] */
    float *logs;          /* [file][TILE_ROWS][BATCH] */
    const float **logits; /* per file, its part of logs */
    double *right;        /* [file][BATCH]: logarithms of the right tokens' probabilities */
    uint32_t ids[BATCH];  /* these tokens */
    divergence *divergence;
} base_tiles;

/* Reads a tile of each file. Of the original's, what llama.cpp leaves out of a divergence is so low then that
 * its exponential vanishes. */
static bool read_tiles(base_tiles *b, size_t position, size_t n, size_t first, size_t rows, gq_error *e) {
    for (size_t m = 0; m < b->n; m++) {
        float *to = b->logs + m * TILE_ROWS * BATCH;
        if (!base_file_tile(&b->files[m], b->rows + m * BATCH, position, n, first, rows, to, BATCH, e))
            return false;
        for (size_t t = 0; t < n; t++) {
            size_t r = b->ids[t] - first; /* wraps for tokens before this tile */
            if (r < rows) b->right[m * BATCH + t] = (double)to[r * BATCH + t];
        }
        for (size_t i = 0; m == 0 && i < rows * BATCH; i++)
            if (to[i] <= BASE_LEFT_OUT_BELOW) to[i] = BASE_LEFT_OUT;
    }
    divergence_tile(b->divergence, (uint32_t)first, (uint32_t)rows, b->logits, BATCH);
    return true;
}

/* The copies' logarithms are taken as they are. The sums of their exponentials are not 1, as the file has the
 * least probable tokens no lower than e^-16 of the likeliest; divergence_at has divided by them. */
static bool keep_scores(const base_tiles *b, size_t position, size_t n, scores *to, gq_error *e) {
    for (size_t t = 0; t < n; t++) {
        divergence_figures original = divergence_at(b->divergence, t, 0);
        for (size_t m = 0; m < b->n; m++) {
            divergence_figures f = divergence_at(b->divergence, t, m);
            double log_p = b->right[m * BATCH + t],
                   kl = exp(original.log_sum) * (f.divergence + original.log_sum - f.log_sum);
            if (!isfinite(log_p) || (m && !isfinite(kl)))
                return gq_fail(e, "%s: the logarithms of scored position %zu cannot be compared",
                               b->files[m].file.path, position + t + 1);
            to->models[m].log_p[position + t] = log_p;
            if (m == 0) continue;
            to->models[m].divergence[position + t] = kl;
            to->models[m].same_top[position + t] = f.top == original.top;
        }
    }
    return true;
}

static bool score_batch(base_tiles *b, const uint32_t *ids, size_t position, size_t n, scores *to,
                        gq_error *e) {
    size_t context = b->files->context, scored = scored_of(context), vocabulary = b->files->vocabulary;
    for (size_t t = 0; t < n; t++) {
        size_t window = (position + t) / scored, at = (position + t) % scored;
        b->ids[t] = ids[window * context + scored_from(context) + at + 1];
    }
    for (size_t m = 0; m < b->n; m++)
        if (!base_file_rows(&b->files[m], position, n, b->rows + m * BATCH, e)) return false;
    divergence_start(b->divergence, n, b->ids);
    for (size_t first = 0; first < vocabulary; first += TILE_ROWS)
        if (!read_tiles(b, position, n, first, smaller(TILE_ROWS, vocabulary - first), e)) return false;
    return keep_scores(b, position, n, to, e);
}

uint64_t base_scores_bytes(size_t n, size_t positions) {
    uint64_t of_file = BATCH * (TILE_ROWS * sizeof(float) + sizeof(base_row) + sizeof(double)),
             of_score = 2 * sizeof(double) + sizeof(bool);
    return plus(times(n, plus(of_file, times(positions, of_score))), divergence_bytes(BATCH, n - 1));
}

bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e) {
    size_t all = windows * scored_of(files->context);
    threads_pool *pool = threads_pool_new(threads_asked(threads));
    base_tiles b = {.files = files,
                    .n = n,
                    .rows = calloc(n, BATCH * sizeof *b.rows),
                    .logs = calloc(n, TILE_ROWS * BATCH * sizeof *b.logs),
                    .logits = calloc(n, sizeof *b.logits),
                    .right = calloc(n, BATCH * sizeof *b.right)};
    bool ok = pool && b.rows && b.logs && b.logits && b.right;
    if (!ok) gq_fail_memory(e, base_scores_bytes(n, all));
    b.divergence = ok ? divergence_new(BATCH, n - 1, pool, e) : NULL;
    ok = b.divergence;
    for (size_t m = 0; ok && m < n; m++) b.logits[m] = b.logs + m * TILE_ROWS * BATCH;
    for (size_t at = 0; ok && at < all; at += BATCH) {
        if (callbacks->cancelled && callbacks->cancelled(callbacks->user))
            ok = gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
        else
            ok = score_batch(&b, ids, at, smaller(BATCH, all - at), to, e);
    }
    for (size_t m = 0; ok && m < n; m++) ok = gq_file_unchanged(&files[m].file, e);
    divergence_free(b.divergence);
    threads_pool_free(pool);
    free(b.rows), free(b.logs), free(b.logits), free(b.right);
    return ok;
}
