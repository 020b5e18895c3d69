#include "forward/divergence.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one model at one position. Arrays of a lane each, so that all loops run over positions. */
enum { LANES = 32 };
typedef struct lanes {
    double max[LANES];
    double sum[LANES];   /* of e^(z - max) */
    double cross[LANES]; /* of e^(z - max) (z - w), where z and max are the original's */
    double right[LANES]; /* the right token's logit */
    uint32_t top[LANES];
} lanes;

struct divergence {
    int threads;
    size_t models, positions, room; /* room: in groups of LANES positions */
    uint32_t *right;                /* per position */
    lanes *sums;                    /* per group, then per model */
};

divergence *divergence_new(size_t positions, size_t copies, int threads, gq_error *e) {
    divergence *d = calloc(1, sizeof *d);
    if (!d) return gq_fail_memory(e, sizeof *d), NULL;
    *d = (divergence){.models = copies + 1, .room = positions / LANES + 1, .threads = threads};
    size_t each;
    if (!__builtin_mul_overflow(d->models, sizeof *d->sums, &each)) d->sums = calloc(d->room, each);
    d->right = calloc(d->room, LANES * sizeof *d->right);
    if (d->sums && d->right) return d;
    gq_fail_memory(e, (unsigned long long)d->room * d->models * sizeof *d->sums);
    divergence_free(d);
    return NULL;
}

void divergence_free(divergence *d) {
    if (!d) return;
    free(d->sums), free(d->right);
    free(d);
}

void divergence_start(divergence *d, size_t positions, const uint32_t *right) {
    d->positions = positions;
    memcpy(d->right, right, positions * sizeof *right);
    size_t n = (positions + LANES - 1) / LANES * d->models;
    memset(d->sums, 0, n * sizeof *d->sums);
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < LANES; t++) d->sums[i].max[t] = -DBL_MAX;
}

/* e^x for x <= 0, within 2^-52 of it: libm's differ in their last bits from machine to machine. k ln 2 is
 * taken off in two parts, the first so short that its product with k is exact; what is left is below 0.35,
 * where the series ends behind the 13th power. Below -700 the result is too small to be seen beside the
 * largest, 1. */
static inline double exp_below(double x) {
    x = x < -700 ? -700 : x; /* NaN stays */
    double shifted = x * 0x1.71547652b82fep0 + 0x1.8p52, k = shifted - 0x1.8p52;
    double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33, p = 1.0 / 6227020800;
    static const double series[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
        1.0 / 120,       1.0 / 24,       1.0 / 6,       1.0 / 2,      1,           1};
#pragma GCC unroll 13
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) p = p * r + series[i];
    uint64_t power, bits;
    memcpy(&power, &shifted, sizeof power);
    memcpy(&bits, &p, sizeof bits);
    bits += power << 52; /* the low bits of `shifted` are k */
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* The maximum so far and which token it is; `scale` makes relative to the new one what has been summed. */
static void raise_maximum(lanes *to, uint32_t first, uint32_t rows, const float *z, size_t stride, size_t n,
                          double *scale) {
    double before[LANES];
    memcpy(before, to->max, sizeof before);
    for (uint32_t r = 0; r < rows; r++, z += stride)
        for (size_t t = 0; t < n; t++) {
            bool more = (double)z[t] > to->max[t];
            to->top[t] = more ? first + r : to->top[t];
            to->max[t] = more ? (double)z[t] : to->max[t];
        }
    for (size_t t = 0; t < n; t++) {
        scale[t] = exp_below(before[t] - to->max[t]);
        to->sum[t] *= scale[t];
    }
}

/* LANES positions from `at` on, or fewer at the end; `to` has a model's sums each. */
static void add_group(const divergence *d, lanes *to, size_t at, uint32_t first, uint32_t rows,
                      const float *const *logits, size_t stride) {
    size_t n = d->positions - at < LANES ? d->positions - at : LANES;
    double scale[LANES], unused[LANES], e[LANES];
    raise_maximum(&to[0], first, rows, logits[0] + at, stride, n, scale);
    for (size_t m = 1; m < d->models; m++) {
        raise_maximum(&to[m], first, rows, logits[m] + at, stride, n, unused);
        for (size_t t = 0; t < n; t++) to[m].cross[t] *= scale[t];
    }
    for (uint32_t r = 0; r < rows; r++) {
        const float *z = logits[0] + r * stride + at;
        for (size_t t = 0; t < n; t++) to[0].sum[t] += e[t] = exp_below((double)z[t] - to[0].max[t]);
        for (size_t m = 1; m < d->models; m++) {
            const float *w = logits[m] + r * stride + at;
            lanes *copy = &to[m];
            for (size_t t = 0; t < n; t++) copy->sum[t] += exp_below((double)w[t] - copy->max[t]);
            for (size_t t = 0; t < n; t++) copy->cross[t] += e[t] * ((double)z[t] - (double)w[t]);
        }
    }
    for (size_t t = 0; t < n; t++) {
        uint32_t r = d->right[at + t] - first; /* wraps for tokens before this tile */
        for (size_t m = 0; r < rows && m < d->models; m++)
            to[m].right[t] = (double)logits[m][r * stride + at + t];
    }
}

void divergence_tile(divergence *d, uint32_t first, uint32_t rows, const float *const *logits,
                     size_t stride) {
    size_t groups = (d->positions + LANES - 1) / LANES;
#pragma omp parallel for schedule(static) num_threads(d->threads)
    for (size_t g = 0; g < groups; g++)
        add_group(d, d->sums + g * d->models, g * LANES, first, rows, logits, stride);
}

divergence_figures divergence_at(const divergence *d, size_t position, size_t model) {
    const lanes *original = d->sums + position / LANES * d->models, *l = original + model;
    size_t t = position % LANES;
    double whole = l->max[t] + log(l->sum[t]), of_original = original->max[t] + log(original->sum[t]);
    divergence_figures f = {.log_p = l->right[t] - whole, .top = l->top[t]};
    /* Its true value is never below 0; where there is next to none rounding may put it there. */
    if (model) f.divergence = fmax(0, l->cross[t] / original->sum[t] - of_original + whole);
    if (!isfinite(whole) || !isfinite(of_original)) f.divergence = (double)NAN;
    return f;
}
