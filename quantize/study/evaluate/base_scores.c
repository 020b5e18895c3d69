/* Compares files of log-probabilities, a few positions and a tile of the vocabulary at a time. */
#include "quantize/study/evaluate/base_scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

/* Tokens of the vocabulary and positions that are in memory at once, of each file: 2 MiB. */
enum { TILE_ROWS = 8192, BATCH = 64 };

bool base_scores_check(const base_file *original, const base_file *copy, gq_error *e) {
    const char *path = copy->file.path, *of = original->file.path;
    if (copy->vocabulary != original->vocabulary || copy->context != original->context)
        return gq_fail(e,
                       "%s: has windows of %zu tokens and a vocabulary of %zu, and %s windows of %zu and a "
                       "vocabulary of %zu; both must be of copies of one model, run on the same text",
                       path, copy->context, copy->vocabulary, of, original->context, original->vocabulary);
    size_t n = min(copy->windows, original->windows) * original->context;
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
    base_batch *batches;  /* per file */
    const float **logits; /* per file, its batch's tile */
    const uint32_t *ids;  /* the text */
    divergence *divergence;
} base_tiles;

/* Lays out all but the divergence, which counts itself. */
static void lay_out_tiles(base_tiles *b, size_t n, memory_ledger *l) {
    b->batches = memory_take_zeros(l, n, sizeof *b->batches);
    b->logits = memory_take(l, n, sizeof *b->logits);
    base_batch counted;
    for (size_t m = 0; m < n; m++)
        base_batch_lay_out(b->batches ? &b->batches[m] : &counted, BATCH, TILE_ROWS, BATCH, l);
    for (size_t m = 0; b->batches && b->logits && m < n; m++) b->logits[m] = b->batches[m].tile;
}

static bool read_tiles(base_tiles *b, size_t first, size_t rows, gq_error *e) {
    for (size_t m = 0; m < b->n; m++)
        if (!base_batch_tile(&b->batches[m], &b->files[m], b->ids, first, rows, BATCH, e)) return false;
    base_batch_leave_out(&b->batches[0], rows, BATCH);
    divergence_tile(b->divergence, (uint32_t)first, (uint32_t)rows, b->logits, BATCH);
    return true;
}

/* The copies' logarithms are taken as they are. The sums of their exponentials are not 1, as the file has the
 * least probable tokens no lower than e^-16 of the likeliest. */
static bool base_keep_scores(const base_tiles *b, size_t position, size_t n, scores *to, gq_error *e) {
    for (size_t t = 0; t < n; t++) {
        divergence_figures original = divergence_at(b->divergence, t, 0);
        for (size_t m = 0; m < b->n; m++) {
            divergence_figures f = divergence_at(b->divergence, t, m);
            double log_p = b->batches[m].log_p[t], kl = base_divergence(&original, &f, f.log_sum);
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

static bool score_batch(base_tiles *b, size_t position, size_t n, scores *to, gq_error *e) {
    size_t vocabulary = b->files->vocabulary;
    uint32_t right[BATCH];
    for (size_t t = 0; t < n; t++) right[t] = b->ids[scored_right(b->files->context, position + t)];
    for (size_t m = 0; m < b->n; m++)
        if (!base_batch_start(&b->batches[m], &b->files[m], position, n, e)) return false;
    divergence_start(b->divergence, n, right);
    for (size_t first = 0; first < vocabulary; first += TILE_ROWS)
        if (!read_tiles(b, first, min(TILE_ROWS, vocabulary - first), e)) return false;
    return base_keep_scores(b, position, n, to, e);
}

uint64_t base_scores_bytes(size_t n, size_t positions) {
    memory_ledger l = {.counts = true};
    base_tiles b = {.n = n};
    lay_out_tiles(&b, n, &l);
    uint64_t of_score = 2 * sizeof(double) + sizeof(bool);
    return add_sat(add_sat(l.bytes, mul_sat(n, mul_sat(positions, of_score))),
                   divergence_bytes(BATCH, n - 1));
}

bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e) {
    size_t all = windows * scored_of(files->context);
    memory_ledger l = {.failed = false};
    threads_pool *pool = threads_pool_new(threads_asked(threads));
    base_tiles b = {.files = files, .n = n, .ids = ids};
    lay_out_tiles(&b, n, &l);
    bool ok = memory_had(&l, e) && (pool || gq_fail_memory(e, sizeof pool));
    b.divergence = ok ? divergence_new(BATCH, n - 1, pool, e) : NULL;
    ok = b.divergence;
    for (size_t at = 0; ok && at < all; at += BATCH) {
        if (callbacks->cancelled && callbacks->cancelled(callbacks->user))
            ok = gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
        else
            ok = score_batch(&b, at, min(BATCH, all - at), to, e);
    }
    for (size_t m = 0; ok && m < n; m++) ok = gq_file_unchanged(&files[m].file, e);
    divergence_free(b.divergence);
    threads_pool_free(pool);
    for (size_t m = 0; b.batches && m < n; m++) base_batch_free(&b.batches[m]);
    free(b.batches), free(b.logits);
    return ok;
}
