/* The running sums behind kld.h, which has the formula. Positions are kept in groups; a group belongs to one
 * thread, and no sum runs across positions (forward/graph/simd/kld.c). That is why figures are the same for
 * any number of threads and on any machine. */
#include "forward/stream/kld.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "forward/graph/simd/kernels.h"

struct kld {
    threads_pool *pool;
    kld_adds *add;
    size_t models, positions, capacity; /* capacity: in groups of KLD_POSITIONS positions */
    uint32_t *right;                    /* per position */
    kld_sums *sums;                     /* per group, then per model */
};

static void kld_lay_out(kld *d, size_t positions, size_t quants, memory_ledger *l) {
    d->models = quants + 1, d->capacity = positions / KLD_POSITIONS + 1;
    d->sums = memory_take_zeros(l, mul_sat(d->capacity, d->models), sizeof *d->sums);
    d->right = memory_take_zeros(l, d->capacity, KLD_POSITIONS * sizeof *d->right);
}

uint64_t kld_bytes(size_t positions, size_t quants) {
    memory_ledger l = {.counts = true};
    kld_lay_out(&(kld){.pool = NULL}, positions, quants, &l);
    return l.bytes;
}

kld *kld_new(size_t positions, size_t quants, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    kld *d = calloc(1, sizeof *d);
    if (!d) return gq_fail_memory(e, sizeof *d), NULL;
    d->pool = pool, d->add = forward_kernels_of(kernels_select())->add_kld;
    kld_lay_out(d, positions, quants, &l);
    if (memory_had(&l, e)) return d;
    kld_free(d);
    return NULL;
}

void kld_free(kld *d) {
    if (!d) return;
    free(d->sums), free(d->right);
    free(d);
}

void kld_start(kld *d, size_t positions, const uint32_t *right) {
    d->positions = positions;
    memcpy(d->right, right, positions * sizeof *right);
    size_t n = (positions + KLD_POSITIONS - 1) / KLD_POSITIONS * d->models;
    memset(d->sums, 0, n * sizeof *d->sums);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < KLD_POSITIONS; t++) d->sums[i].max[t] = -DBL_MAX;
}

kld *kld_of_windows(const forward_job *j, size_t first, size_t windows, size_t from, size_t n, size_t quants,
                    threads_pool *pool, gq_error *e) {
    uint32_t *right = malloc(windows * n * sizeof *right);
    if (!right) return gq_fail_memory(e, windows * n * sizeof *right), NULL;
    for (size_t i = 0; i < windows * n; i++)
        right[i] = forward_job_right(j, (first + i / n) * j->context + from + i % n + 1);
    kld *d = kld_new(windows * n, quants, pool, e);
    if (d) kld_start(d, windows * n, right);
    free(right);
    return d;
}

typedef struct tile {
    const kld *d;
    uint32_t first, rows;
    const float *const *logits;
    size_t stride;
} tile;

static void kld_add_group(void *data, size_t group, int) {
    const tile *t = data;
    const kld *d = t->d;
    kld_task k = {.to = d->sums + group * d->models,
                  .models = d->models,
                  .at = group * KLD_POSITIONS,
                  .stride = t->stride,
                  .first = t->first,
                  .rows = t->rows,
                  .logits = t->logits};
    k.n = min(KLD_POSITIONS, d->positions - k.at);
    d->add(&k);
    for (size_t i = 0; i < k.n; i++) {
        uint32_t r = d->right[k.at + i] - t->first; /* wraps for tokens before this tile */
        for (size_t m = 0; r < t->rows && m < d->models; m++)
            k.to[m].right[i] = (double)t->logits[m][r * t->stride + k.at + i];
    }
}

void kld_tile(kld *d, uint32_t first, uint32_t rows, const float *const *logits, size_t stride) {
    tile t = {d, first, rows, logits, stride};
    threads_for(d->pool, (d->positions + KLD_POSITIONS - 1) / KLD_POSITIONS, THREADS_EVEN, kld_add_group, &t);
}

kld_figures kld_at(const kld *d, size_t position, size_t model) {
    const kld_sums *base = d->sums + position / KLD_POSITIONS * d->models, *l = base + model;
    size_t t = position % KLD_POSITIONS;
    double whole = l->max[t] + log(l->sum[t]), of_base = base->max[t] + log(base->sum[t]);
    kld_figures f = {.log_p = l->right[t] - whole, .log_sum = whole, .top = (uint32_t)l->top[t]};
    /* The true value is never below 0; rounding may put one near 0 there. */
    if (model) f.kld = fmax(0, l->cross[t] / base->sum[t] - of_base + whole);
    if (!isfinite(whole) || !isfinite(of_base)) f.kld = (double)NAN;
    return f;
}

/* ---- predictions of the next token ---- */

typedef struct predicting {
    const forward_predictions *to;
    forward_run *run;
    size_t from, n, quants; /* positions of a window */
    size_t first_window, windows;
    kld *kld; /* for each of these windows */
} predicting;

static bool predictions_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    predicting *p = data;
    p->first_window = first_window, p->windows = windows;
    kld_free(p->kld);
    p->kld = kld_of_windows(p->to->job, first_window, windows, p->from, p->n, p->quants,
                            forward_run_pool(p->run), e);
    return p->kld;
}

static bool predictions_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                             gq_error *) {
    const predicting *p = data;
    kld_tile(p->kld, (uint32_t)first, (uint32_t)rows, logits, stride);
    return true;
}

static bool predictions_end(void *data, gq_error *e) {
    const predicting *p = data;
    const forward_job *j = p->to->job;
    for (size_t i = 0; i < p->windows * p->n; i++) {
        size_t next = (p->first_window + i / p->n) * j->context + p->from + i % p->n + 1;
        double weight = forward_job_weight(j, next);
        if (weight > 0 && !p->to->at(p->to->data, p->kld, i, next, weight, e)) return false;
    }
    return true;
}

static bool predictions_block(void *data, size_t i, forward_layer *l, bool is_done, gq_error *e) {
    const predicting *p = data;
    return p->to->block(p->to->data, i, l, is_done, e);
}

bool forward_run_predictions(forward_run *r, forward_stream *const *streams, size_t n,
                             const forward_predictions *to, gq_error *e) {
    size_t from = forward_predicts_from(to->model, to->job->context);
    predicting p = {.to = to, .run = r, .from = from, .n = to->job->context - 1 - from, .quants = n - 1};
    const forward_head head = {.from = forward_job_place(to->job, from),
                               .n = p.n,
                               .start = predictions_start,
                               .tile = predictions_tile,
                               .end = predictions_end,
                               .block = to->block ? predictions_block : NULL,
                               .data = &p};
    bool ok = forward_run_head(r, streams, n, &head, e);
    kld_free(p.kld);
    return ok;
}
