#include "study/evaluate/evaluate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/safe_file.h"
#include "base/units.h"
#include "quantize/quantize.h"

/* ---- logits as they are ---- */

/* Fails with errno, as a write that failed. */
static bool logits_file_fail(const logits_file *f, gq_error *e) {
    return gq_fail(e, "%s: cannot write: %s", f->path, strerror(errno));
}

/* Opens the file beside the one of that name, or makes it. */
static bool logits_file_open(logits_file *f, int (*open_file)(const char *path), const char *path,
                             bool replace, size_t vocabulary, gq_error *e) {
    *f = (logits_file){.path = path, .replace = replace, .vocabulary = vocabulary};
    f->beside = safe_file_beside(path, FILES_LOGITS_SUFFIX);
    if (!f->beside) return gq_fail_memory(e, strlen(path));
    f->fd = open_file(f->beside);
    if (f->fd >= 0) return true;
    if (errno == EEXIST)
        gq_fail(e, "another process is writing %s (it locks %s); wait until it is done", path, f->beside);
    else
        logits_file_fail(f, e);
    free(f->beside);
    f->beside = NULL;
    return false;
}

/* Whether a file of so many bytes fits beside what is there: a text's logits are 4 bytes for each token of the
 * vocabulary at each position, and hours of work go into them. Where the system does not say, writing shows it. */
static bool logits_file_fits(const char *path, const char *beside, int fd, uint64_t bytes, gq_error *e) {
    struct statvfs fs;
    char needed[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];
    if (fstatvfs(fd, &fs) != 0) return true;
    uint64_t room = mul_sat(fs.f_bavail, fs.f_frsize);
    if (bytes <= room) return true;
    units_compare_files(needed, bytes, available, room);
    unlink(beside);
    return gq_fail(e, "cannot write %s: it needs %s and %s are free", path, needed, available);
}

bool logits_file_start(logits_file *f, const char *path, bool replace, uint64_t bytes, size_t vocabulary,
                       gq_error *e) {
    *f = (logits_file){.fd = -1};
    if (bytes == UINT64_MAX)
        return gq_fail(e, "%s: the logits would need 2^64 bytes or more; evaluate fewer tokens", path);
    if (!gq_check_target(path, replace, e) || !safe_file_may_grow(path, bytes, e) ||
        !logits_file_open(f, safe_file_renew, path, replace, vocabulary, e))
        return false;
    if (logits_file_fits(path, f->beside, f->fd, bytes, e)) return true;
    close(f->fd), free(f->beside);
    return *f = (logits_file){.fd = -1}, false;
}

bool logits_file_join(logits_file *f, const char *path, bool replace, size_t vocabulary, gq_error *e) {
    return logits_file_open(f, safe_file_open, path, replace, vocabulary, e);
}

bool logits_file_add(logits_file *f, size_t position, size_t n, size_t first_row, size_t rows,
                     const float *logits, size_t stride, gq_error *e) {
    float *token = malloc(rows * sizeof *token);
    if (!token) return gq_fail_memory(e, rows * sizeof *token);
    bool ok = true;
    for (size_t t = 0; ok && t < n; t++) {
        uint64_t at = ((uint64_t)(position + t) * f->vocabulary + first_row) * sizeof *token;
        for (size_t r = 0; r < rows; r++) token[r] = logits[r * stride + t];
        ok = safe_file_write(f->fd, at, token, rows * sizeof *token) || logits_file_fail(f, e);
    }
    free(token);
    return ok;
}

bool logits_file_end(logits_file *f, bool ok, bool names, gq_error *e) {
    ok = ok && (fsync(f->fd) == 0 || logits_file_fail(f, e));
    ok = ok && (!names || safe_file_rename(f->beside, f->path, f->replace) || logits_file_fail(f, e));
    if (names && !ok) unlink(f->beside);
    close(f->fd); /* it is locked until it has its name */
    free(f->beside);
    f->beside = NULL;
    return ok;
}

static const char MAGIC[8] = "_logits_";

typedef struct base_header {
    char magic[8];
    uint32_t context;
    int32_t vocabulary, windows;
} base_header;
_Static_assert(sizeof(base_header) == 20, "the header is written as it lies in memory");

enum { CODES = 65535 };

static uint64_t base_row_bytes(size_t vocabulary) { return sizeof(base_row) + (vocabulary + 1) / 2 * 4; }

/* ---- reading ---- */

static bool check_header(const gq_file *f, const base_header *h, gq_error *e) {
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
        return gq_fail(
            e,
            "%s: not a file of log-probabilities, which begins with \"_logits_\"; llama-perplexity "
            "--kl-divergence-base and gquant evaluate --base-out write such files",
            f->path);
    if (h->context < 4 || h->vocabulary < 1 || h->windows < 1)
        return gq_fail(e,
                       "%s: has %d windows of %u tokens and a vocabulary of %d; at least one window of 4 "
                       "tokens is needed",
                       f->path, h->windows, h->context, h->vocabulary);
    return true;
}

/* Counts the windows whose rows are all there. */
static bool count_windows(base_file *f, const base_header *h, gq_error *e) {
    uint64_t ids = mul_sat(mul_sat((uint64_t)h->windows, h->context), sizeof *f->ids),
             begin = add_sat(sizeof *h, ids),
             window = mul_sat(scored_of(h->context), base_row_bytes((size_t)h->vocabulary));
    uint64_t there = f->file.size > begin ? (f->file.size - begin) / window : 0;
    f->context = h->context, f->vocabulary = (size_t)h->vocabulary;
    f->windows = min(there, (uint64_t)h->windows);
    f->windows_missing = (size_t)h->windows - f->windows;
    return f->windows ||
           gq_fail(e,
                   "%s: has %llu bytes; %d windows of %u tokens take %llu, and its first window ends at %llu",
                   f->file.path, LLU(f->file.size), h->windows, h->context,
                   LLU(add_sat(begin, mul_sat((uint64_t)h->windows, window))), LLU(add_sat(begin, window)));
}

static bool base_read_tokens(base_file *f, gq_error *e) {
    size_t n = f->windows * f->context;
    f->ids = malloc(n * sizeof *f->ids);
    if (!f->ids) return gq_fail_memory(e, n * sizeof *f->ids);
    if (!gq_file_read(&f->file, sizeof(base_header), f->ids, n * sizeof *f->ids, e)) return false;
    for (size_t i = 0; i < n; i++)
        if (f->ids[i] >= f->vocabulary)
            return gq_fail(e, "%s: token %zu is %u, but the vocabulary has %zu", f->file.path, i + 1,
                           f->ids[i], f->vocabulary);
    return true;
}

bool base_file_open(base_file *f, const char *path, gq_error *e) {
    base_header h;
    *f = (base_file){.ids = NULL};
    if (gq_file_open(&f->file, path, e) && gq_file_read(&f->file, 0, &h, sizeof h, e) &&
        check_header(&f->file, &h, e) && count_windows(f, &h, e) && base_read_tokens(f, e))
        return true;
    base_file_close(f);
    return false;
}

void base_file_close(base_file *f) {
    gq_file_close(&f->file);
    free(f->ids);
    *f = (base_file){.ids = NULL};
}

bool base_file_begins(const char *path) {
    gq_error unused;
    gq_file f;
    char magic[sizeof MAGIC];
    if (!gq_file_open(&f, path, &unused)) return false;
    bool is = gq_file_read(&f, 0, magic, sizeof magic, &unused) && !memcmp(magic, MAGIC, sizeof MAGIC);
    gq_file_close(&f);
    return is;
}

/* ---- batches ---- */

void base_batch_lay_out(base_batch *b, size_t positions, size_t rows, size_t stride, memory_ledger *l) {
    b->rows = memory_take(l, positions, sizeof *b->rows);
    b->log_p = memory_take(l, positions, sizeof *b->log_p);
    b->tile = memory_take(l, mul_sat(rows, stride), sizeof *b->tile);
}

void base_batch_free(base_batch *b) {
    free(b->rows), free(b->log_p), free(b->tile);
    *b = (base_batch){.rows = NULL};
}

/* Returns the offset of a position's row. The tokens before it are those of all windows that the file
 * announces, whether or not their rows are there. */
static uint64_t row_at(const base_file *f, size_t position) {
    return sizeof(base_header) + (f->windows + f->windows_missing) * f->context * sizeof *f->ids +
           position * base_row_bytes(f->vocabulary);
}

bool base_batch_start(base_batch *b, const base_file *f, size_t position, size_t n, gq_error *e) {
    b->position = position, b->n = n;
    for (size_t t = 0; t < n; t++) {
        base_row *to = &b->rows[t];
        uint64_t at = row_at(f, position + t);
        if (!gq_file_read(&f->file, at, to, sizeof *to, e)) return false;
        if (!isfinite(to->scale) || !isfinite(to->least) || to->scale < 0)
            return gq_fail(e,
                           "%s: the row at byte %llu has scale %g and minimum %g; both must be finite, and "
                           "the scale not below 0",
                           f->file.path, LLU(at), (double)to->scale, (double)to->least);
    }
    return true;
}

bool base_batch_tile(base_batch *b, const base_file *f, const uint32_t *ids, size_t first, size_t rows,
                     size_t stride, gq_error *e) {
    const float ROUNDED = .01F; /* of 16 nats in 65,535 steps, in binary32 */
    uint16_t *codes = malloc(rows * sizeof *codes);
    if (!codes) return gq_fail_memory(e, rows * sizeof *codes);
    bool ok = true;
    for (size_t t = 0; ok && t < b->n; t++) {
        const base_row *row = &b->rows[t];
        uint64_t at = row_at(f, b->position + t) + sizeof *row + first * sizeof *codes;
        ok = gq_file_read(&f->file, at, codes, rows * sizeof *codes, e);
        for (size_t r = 0; ok && r < rows; r++) {
            float x = b->tile[r * stride + t] = row->scale * (float)codes[r] + row->least;
            if (x > ROUNDED)
                ok = gq_fail(e,
                             "%s: the code at byte %llu is a log-probability of %g, and none is above 0: the "
                             "file is damaged",
                             f->file.path, LLU(at + r * sizeof *codes), (double)x);
        }
        size_t right = ids[scored_right(f->context, b->position + t)] - first; /* wraps before this tile */
        if (ok && right < rows) b->log_p[t] = (double)b->tile[right * stride + t];
    }
    free(codes);
    return ok;
}

void base_batch_leave_out(base_batch *b, size_t rows, size_t stride) {
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < b->n; t++)
            if (b->tile[r * stride + t] <= -16) b->tile[r * stride + t] = -1e30F;
}

double base_kld(const kld_figures *base, const kld_figures *quant, double quant_sum) {
    return exp(base->log_sum) * (quant->kld + base->log_sum - quant_sum);
}

/* ---- writing ---- */

static bool write_tokens(const base_writer *w, const text_windows *windows, gq_error *e) {
    base_header h = {.context = (uint32_t)windows->context,
                     .vocabulary = (int32_t)w->file.vocabulary,
                     .windows = (int32_t)windows->n};
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    bool ok = safe_file_write(w->file.fd, 0, &h, sizeof h) &&
              safe_file_write(w->file.fd, sizeof h, windows->ids,
                              windows->n * windows->context * sizeof *windows->ids);
    for (size_t i = 0; ok && windows->replaced && i < windows->n; i++)
        ok = safe_file_write(w->file.fd, sizeof h + i * windows->context * sizeof *windows->ids,
                             &windows->replaced[i], sizeof *windows->replaced);
    return ok || logits_file_fail(&w->file, e);
}

static uint64_t rows_begin(const text_windows *w) {
    return add_sat(sizeof(base_header), mul_sat(mul_sat(w->n, w->context), sizeof *w->ids));
}

bool base_writer_join(base_writer *w, const char *path, bool replace, const text_windows *windows,
                      size_t vocabulary, gq_error *e) {
    *w = (base_writer){.rows_at = rows_begin(windows)};
    return logits_file_join(&w->file, path, replace, vocabulary, e);
}

bool base_writer_start(base_writer *w, const char *path, bool replace, const text_windows *windows,
                       size_t vocabulary, gq_error *e) {
    uint64_t begin = rows_begin(windows),
             rows = mul_sat(mul_sat(windows->n, scored_of(windows->context)), base_row_bytes(vocabulary));
    *w = (base_writer){.rows_at = begin};
    if (windows->n > INT32_MAX || vocabulary > INT32_MAX || windows->context > UINT32_MAX)
        return gq_fail(e,
                       "%s: %zu windows of %zu tokens do not fit the file's 32-bit counts; use fewer tokens",
                       path, windows->n, windows->context);
    if (!logits_file_start(&w->file, path, replace, add_sat(begin, rows), vocabulary, e)) return false;
    return write_tokens(w, windows, e) || logits_file_end(&w->file, false, true, e);
}

/* Returns the logit that code 0 of a position stands for. */
static float least_kept(const base_range *range) { return fmaxf(range->least, range->most - 16); }

/* Returns the row of a position. Its logarithms are the logits minus log_sum. */
static base_row row_of(const base_range *range) {
    float least = least_kept(range);
    return (base_row){.scale = (range->most - least) / CODES, .least = (float)(least - range->log_sum)};
}

bool base_writer_add(base_writer *w, const base_range *range, size_t position, size_t n, size_t first,
                     size_t rows, const float *logits, size_t stride, gq_error *e) {
    uint16_t *codes = calloc(rows + 1, sizeof *codes); /* one more: behind an odd vocabulary */
    if (!codes) return gq_fail_memory(e, rows * sizeof *codes);
    size_t some = rows + (first + rows == w->file.vocabulary && w->file.vocabulary % 2);
    bool ok = true;
    for (size_t t = 0; ok && t < n; t++) {
        base_row row = row_of(&range[t]);
        uint64_t at = w->rows_at + (position + t) * base_row_bytes(w->file.vocabulary);
        float least = least_kept(&range[t]), per_code = row.scale > 0 ? 1 / row.scale : 0;
        for (size_t r = 0; r < rows; r++) {
            float above = logits[r * stride + t] - least;
            codes[r] = above > 0 ? (uint16_t)fminf(rintf(per_code * above), CODES) : 0;
        }
        ok =
            (first > 0 || safe_file_write(w->file.fd, at, &row, sizeof row)) &&
            safe_file_write(w->file.fd, at + sizeof row + first * sizeof *codes, codes, some * sizeof *codes);
        ok = ok || logits_file_fail(&w->file, e);
    }
    free(codes);
    return ok;
}

/* ---- files compared ---- */

/* Compares files of log-probabilities, a few positions and a tile of the vocabulary at a time. */

/* Tokens of the vocabulary and positions that are in memory at once, of each file: 2 MiB. */
enum { TILE_ROWS = 8192, BATCH = 64 };

bool base_scores_check(const base_file *base_model, const base_file *quant, gq_error *e) {
    const char *path = quant->file.path, *of = base_model->file.path;
    if (quant->vocabulary != base_model->vocabulary || quant->context != base_model->context)
        return gq_fail(
            e,
            "%s: has windows of %zu tokens and a vocabulary of %zu, and %s windows of %zu and a "
            "vocabulary of %zu; both must be of quantized models of one base model, run on the same text",
            path, quant->context, quant->vocabulary, of, base_model->context, base_model->vocabulary);
    size_t n = min(quant->windows, base_model->windows) * base_model->context;
    for (size_t i = 0; i < n; i++)
        if (quant->ids[i] != base_model->ids[i])
            return gq_fail(e, "%s: token %zu of its text is %u, and %u in %s; both must be of the same text",
                           path, i + 1, quant->ids[i], base_model->ids[i], of);
    return true;
}

/* The parts of all files that are in memory at once. */
typedef struct base_tiles {
    const base_file *files;
    size_t n;
    base_batch *batches;  /* per file */
    const float **logits; /* per file, its batch's tile */
    const uint32_t *ids;  /* the text */
    kld *kld;
} base_tiles;

/* Lays out all but the KL divergence, which counts itself. */
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
    kld_tile(b->kld, (uint32_t)first, (uint32_t)rows, b->logits, BATCH);
    return true;
}

/* The quants' logarithms are taken as they are. The sums of their exponentials are not 1, as the file has the
 * least probable tokens no lower than e^-16 of the likeliest. */
static bool base_keep_scores(const base_tiles *b, size_t position, size_t n, scores *to, gq_error *e) {
    for (size_t t = 0; t < n; t++) {
        kld_figures base_model = kld_at(b->kld, t, 0);
        for (size_t m = 0; m < b->n; m++) {
            kld_figures f = kld_at(b->kld, t, m);
            double log_p = b->batches[m].log_p[t], kl = base_kld(&base_model, &f, f.log_sum);
            if (!isfinite(log_p) || (m && !isfinite(kl)))
                return gq_fail(e, "%s: the log-probabilities at scored position %zu are not finite",
                               b->files[m].file.path, position + t + 1);
            to->models[m].log_p[position + t] = log_p;
            if (m == 0) continue;
            to->models[m].kld[position + t] = kl;
            to->models[m].same_top1[position + t] = f.top == base_model.top;
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
    kld_start(b->kld, n, right);
    for (size_t first = 0; first < vocabulary; first += TILE_ROWS)
        if (!read_tiles(b, first, min(TILE_ROWS, vocabulary - first), e)) return false;
    return base_keep_scores(b, position, n, to, e);
}

uint64_t base_scores_bytes(size_t n, size_t positions) {
    memory_ledger l = {.counts = true};
    base_tiles b = {.n = n};
    lay_out_tiles(&b, n, &l);
    uint64_t of_score = 2 * sizeof(double) + sizeof(bool);
    return add_sat(add_sat(l.bytes, mul_sat(n, mul_sat(positions, of_score))), kld_bytes(BATCH, n - 1));
}

bool base_scores_run(const base_file *files, size_t n, const uint32_t *ids, size_t windows, int threads,
                     const gq_callbacks *callbacks, scores *to, gq_error *e) {
    size_t all = windows * scored_of(files->context);
    memory_ledger l = {.failed = false};
    threads_pool *pool = threads_pool_new(threads_asked(threads));
    base_tiles b = {.files = files, .n = n, .ids = ids};
    lay_out_tiles(&b, n, &l);
    bool ok = memory_had(&l, e) && (pool || gq_fail_memory(e, sizeof pool));
    b.kld = ok ? kld_new(BATCH, n - 1, pool, e) : NULL;
    ok = b.kld;
    for (size_t at = 0; ok && at < all; at += BATCH) {
        if (callbacks->cancelled && callbacks->cancelled(callbacks->user))
            ok = gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
        else
            ok = score_batch(&b, at, min(BATCH, all - at), to, e);
    }
    for (size_t m = 0; ok && m < n; m++) ok = gq_file_unchanged(&files[m].file, e);
    kld_free(b.kld);
    threads_pool_free(pool);
    for (size_t m = 0; b.batches && m < n; m++) base_batch_free(&b.batches[m]);
    free(b.batches), free(b.logits);
    return ok;
}
