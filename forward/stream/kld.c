/* The running sums behind kld.h, which has the formula. Positions are kept in groups of LANES, and
 * every loop runs over the positions of a group, two doubles at a time. A tile of the vocabulary is gone
 * through twice: the first time finds the new maximum of each position and scales what has been summed to it,
 * the second adds the exponentials relative to that maximum, so that none overflows. A group belongs to one
 * thread and no sum runs across positions; exp is our own. That is why figures are the same for any number of
 * threads and on any machine. */
#include "forward/stream/kld.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

/* Running sums of one model for LANES positions. Each array has a lane per position, so that all loops run
 * over positions. */
enum { LANES = 32 };
typedef struct lanes {
    double max[LANES];
    double sum[LANES];   /* of e^(z - max) */
    double cross[LANES]; /* of e^(z - max) (z - w), where z and max are the base model's */
    double right[LANES]; /* the right token's logit */
    int64_t top[LANES];
} lanes;

struct kld {
    threads_pool *pool;
    size_t models, positions, capacity; /* capacity: in groups of LANES positions */
    uint32_t *right;                    /* per position */
    lanes *sums;                        /* per group, then per model */
};

static void kld_lay_out(kld *d, size_t positions, size_t copies, memory_ledger *l) {
    d->models = copies + 1, d->capacity = positions / LANES + 1;
    d->sums = memory_take_zeros(l, mul_sat(d->capacity, d->models), sizeof *d->sums);
    d->right = memory_take_zeros(l, d->capacity, LANES * sizeof *d->right);
}

uint64_t kld_bytes(size_t positions, size_t copies) {
    memory_ledger l = {.counts = true};
    kld_lay_out(&(kld){.pool = NULL}, positions, copies, &l);
    return l.bytes;
}

kld *kld_new(size_t positions, size_t copies, threads_pool *pool, gq_error *e) {
    memory_ledger l = {.failed = false};
    kld *d = calloc(1, sizeof *d);
    if (!d) return gq_fail_memory(e, sizeof *d), NULL;
    d->pool = pool;
    kld_lay_out(d, positions, copies, &l);
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
    size_t n = (positions + LANES - 1) / LANES * d->models;
    memset(d->sums, 0, n * sizeof *d->sums);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < LANES; t++) d->sums[i].max[t] = -DBL_MAX;
}

kld *kld_of_windows(const forward_job *j, size_t first, size_t windows, size_t from, size_t n, size_t copies,
                    threads_pool *pool, gq_error *e) {
    uint32_t *right = malloc(windows * n * sizeof *right);
    if (!right) return gq_fail_memory(e, windows * n * sizeof *right), NULL;
    for (size_t i = 0; i < windows * n; i++)
        right[i] = forward_job_right(j, (first + i / n) * j->context + from + i % n + 1);
    kld *d = kld_new(windows * n, copies, pool, e);
    if (d) kld_start(d, windows * n, right);
    free(right);
    return d;
}

/* Vectors of two doubles, which every processor that gquant runs on has. */
typedef double vd __attribute__((vector_size(16)));
typedef int64_t vl __attribute__((vector_size(16)));
typedef uint64_t vu __attribute__((vector_size(16)));
typedef float vs __attribute__((vector_size(8)));
enum { PAIR = 2 };

static inline vd load_doubles(const double *from) {
    vd x;
    memcpy(&x, from, sizeof x);
    return x;
}
static inline void store_doubles(double *to, vd x) { memcpy(to, &x, sizeof x); }
static inline vd load_floats(const float *from) {
    vs x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, vd);
}

static inline vd pick_doubles(vl which, vd a, vd b) { return (vd)((which & (vl)a) | (~which & (vl)b)); }

/* e^x for x <= 0, within 2^-52 of it: libm's differ in their last bits from machine to machine. k ln 2 is
 * taken off in two parts, the first so short that its product with k is exact; what is left is below 0.35,
 * where the series ends behind the 13th power. Below -700 the result is too small to be seen beside the
 * largest, 1. */
static inline vd exp_below(vd x) {
    x = pick_doubles(x < -700.0, (vd){-700, -700}, x); /* NaN is not below, and stays */
    vd shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;
    vd r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33,
       p = r * (1.0 / 6227020800) + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800, p = p * r + 1.0 / 3628800, p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320, p = p * r + 1.0 / 5040, p = p * r + 1.0 / 720, p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24, p = p * r + 1.0 / 6, p = p * r + 1.0 / 2, p = p * r + 1.0, p = p * r + 1.0;
    return (vd)((vu)p + ((vu)shifted << 52)); /* the low bits of `shifted` are k */
}

/* Returns a row's logits at the positions of a group; those of the last group are padded with zeros. */
static inline const float *row_padded(const float *row, size_t n, float padded[LANES]) {
    if (n == LANES) return row;
    memcpy(padded, row, n * sizeof *row);
    return padded;
}

/* Takes a tile into the maximum and the likeliest token of each position, and makes `sum` relative to the new
 * maximum. scale: by which factor, per position. */
static void raise_maximum(lanes *to, uint32_t first, uint32_t rows, const float *z, size_t stride, size_t n,
                          double *scale) {
    double before[LANES];
    float padded[LANES] = {0};
    memcpy(before, to->max, sizeof before);
    for (uint32_t r = 0; r < rows; r++) {
        const float *row = row_padded(z + r * stride, n, padded);
        for (size_t t = 0; t < LANES; t += PAIR) {
            vd x = load_floats(row + t), max = load_doubles(to->max + t);
            vl more = x > max, top, token = {first + r, first + r};
            memcpy(&top, to->top + t, sizeof top);
            top = (more & token) | (~more & top);
            memcpy(to->top + t, &top, sizeof top);
            store_doubles(to->max + t, pick_doubles(more, x, max));
        }
    }
    for (size_t t = 0; t < LANES; t += PAIR) {
        vd down = exp_below(load_doubles(before + t) - load_doubles(to->max + t));
        store_doubles(scale + t, down);
        store_doubles(to->sum + t, load_doubles(to->sum + t) * down);
    }
}

/* Adds a tile at the group of positions that begins at `at`: LANES of them, fewer at the end. to: sums per
 * model. */
static void lanes_add_group(const kld *d, lanes *to, size_t at, uint32_t first, uint32_t rows,
                            const float *const *logits, size_t stride) {
    size_t n = d->positions - at < LANES ? d->positions - at : LANES;
    double scale[LANES], unused[LANES], e[LANES];
    float padded[2][LANES] = {0};
    raise_maximum(&to[0], first, rows, logits[0] + at, stride, n, scale);
    for (size_t m = 1; m < d->models; m++) {
        raise_maximum(&to[m], first, rows, logits[m] + at, stride, n, unused);
        for (size_t t = 0; t < LANES; t++) to[m].cross[t] *= scale[t];
    }
    for (uint32_t r = 0; r < rows; r++) {
        const float *z = row_padded(logits[0] + r * stride + at, n, padded[0]);
        for (size_t t = 0; t < LANES; t += PAIR) {
            vd x = exp_below(load_floats(z + t) - load_doubles(to[0].max + t));
            store_doubles(e + t, x);
            store_doubles(to[0].sum + t, load_doubles(to[0].sum + t) + x);
        }
        for (size_t m = 1; m < d->models; m++) {
            const float *w = row_padded(logits[m] + r * stride + at, n, padded[1]);
            lanes *copy = &to[m];
            for (size_t t = 0; t < LANES; t += PAIR) {
                vd of_copy = load_floats(w + t), x = exp_below(of_copy - load_doubles(copy->max + t));
                store_doubles(copy->sum + t, load_doubles(copy->sum + t) + x);
                store_doubles(copy->cross + t, load_doubles(copy->cross + t) +
                                                   load_doubles(e + t) * (load_floats(z + t) - of_copy));
            }
        }
    }
    for (size_t t = 0; t < n; t++) {
        uint32_t r = d->right[at + t] - first; /* wraps for tokens before this tile */
        for (size_t m = 0; r < rows && m < d->models; m++)
            to[m].right[t] = (double)logits[m][r * stride + at + t];
    }
}

typedef struct tile {
    const kld *d;
    uint32_t first, rows;
    const float *const *logits;
    size_t stride;
} tile;

static void add_groups_tile(void *data, size_t group, int) {
    const tile *t = data;
    lanes_add_group(t->d, t->d->sums + group * t->d->models, group * LANES, t->first, t->rows, t->logits,
                    t->stride);
}

void kld_tile(kld *d, uint32_t first, uint32_t rows, const float *const *logits, size_t stride) {
    tile t = {d, first, rows, logits, stride};
    threads_for(d->pool, (d->positions + LANES - 1) / LANES, THREADS_EVEN, add_groups_tile, &t);
}

kld_figures kld_at(const kld *d, size_t position, size_t model) {
    const lanes *original = d->sums + position / LANES * d->models, *l = original + model;
    size_t t = position % LANES;
    double whole = l->max[t] + log(l->sum[t]), of_original = original->max[t] + log(original->sum[t]);
    kld_figures f = {.log_p = l->right[t] - whole, .log_sum = whole, .top = (uint32_t)l->top[t]};
    /* The true value is never below 0; rounding may put one near 0 there. */
    if (model) f.divergence = fmax(0, l->cross[t] / original->sum[t] - of_original + whole);
    if (!isfinite(whole) || !isfinite(of_original)) f.divergence = (double)NAN;
    return f;
}

/* ---- predictions of the next token ---- */

typedef struct predicting {
    const forward_predictions *to;
    forward_run *run;
    size_t from, n, copies; /* positions of a window */
    size_t first_window, windows;
    kld *divergence; /* of these windows */
} predicting;

static bool predictions_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    predicting *p = data;
    p->first_window = first_window, p->windows = windows;
    kld_free(p->divergence);
    p->divergence = kld_of_windows(p->to->job, first_window, windows, p->from, p->n, p->copies,
                                   forward_run_pool(p->run), e);
    return p->divergence;
}

static bool predictions_tile(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                             gq_error *) {
    const predicting *p = data;
    kld_tile(p->divergence, (uint32_t)first, (uint32_t)rows, logits, stride);
    return true;
}

static bool predictions_end(void *data, gq_error *e) {
    const predicting *p = data;
    const forward_job *j = p->to->job;
    for (size_t i = 0; i < p->windows * p->n; i++) {
        size_t next = (p->first_window + i / p->n) * j->context + p->from + i % p->n + 1;
        double weight = forward_job_weight(j, next);
        if (weight > 0 && !p->to->at(p->to->data, p->divergence, i, next, weight, e)) return false;
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
    predicting p = {.to = to, .run = r, .from = from, .n = to->job->context - 1 - from, .copies = n - 1};
    const forward_head head = {.from = forward_job_place(to->job, from),
                               .n = p.n,
                               .start = predictions_start,
                               .tile = predictions_tile,
                               .end = predictions_end,
                               .block = to->block ? predictions_block : NULL,
                               .data = &p};
    bool ok = forward_run_head(r, streams, n, &head, e);
    kld_free(p.divergence);
    return ok;
}
