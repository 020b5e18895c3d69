/* A batch: the same block of columns of GQ_LANES rows, a row per lane; and what all searches make of it. */
#pragma once

#include "codec/codec.h"
#include "codec/simd/lanes.h"

/* The encoders minimise the sum of w (x - x')^2, where w is the importance of the column, 1 without
 * importance data. Other objectives were tried; by next-token divergence this one is as good as any
 * (bench/results/small-models.md). batch_weigh() is the place. */
typedef struct batch {
    vf x[256];         /* weights, scaled by a power of two so that the largest of the block is in [1, 2) */
    vf unit, per_unit; /* what 1.0 in x stands for: the power of two; and its inverse */
    bool weighted;
    float w[256]; /* weights of the objective, the same in all lanes, largest near 1, none zero; only where
                     weighted */
} batch;

/* 2^-k and 2^k for 2^k <= a < 2^(k+1), k kept within -126..126; a >= 0. */
INLINE void vf_power_of_two(vf a, vf *down, vf *up) {
    vi e = vf_bits(a) & 0x7f800000;
    e = vi_pick(vi_less(e, vi_all(1 << 23)), vi_all(1 << 23), e);
    e = vi_pick(vi_less(vi_all(253 << 23), e), vi_all(253 << 23), e);
    *up = vf_from_bits(e);
    *down = vf_from_bits((254 << 23) - e);
}

/* Weights of the objective, w, from the importance of n columns (a multiple of 16). */
INLINE void batch_weigh(float *w, const float *column, int n) {
    vf top = vf_all(0), down, up;
    for (int i = 0; i < n; i += L) top = vf_larger(vf_load(column + i), top);
    for (int i = 1; i < L; i++) top[0] = top[i] > top[0] ? top[i] : top[0];
    top = vf_all(top[0]);
    vf_power_of_two(top, &down, &up);
    /* Dead columns (zero, or so small that it underflows) get a trace of importance: their codes stay
     * sensible and no sum is zero. A block of nothing but dead columns gets uniform importance. */
    vm dead = vf_at_most(top, vf_all(0));
    for (int i = 0; i < n; i += L)
        vf_store(w + i, vf_pick(dead, vf_all(1.0f), vf_load(column + i) * down) + 0x1p-20f);
}

/* Begin a batch whose n columns are in b->x as they are. importance: of these columns, or NULL. */
INLINE void start_batch(batch *b, const float *importance, int n) {
    vf low, high;
    vf_extremes(b->x, n, &low, &high);
    vf top = vf_larger(vf_magnitude(low), vf_magnitude(high));
    vf_power_of_two(top, &b->per_unit, &b->unit);
    for (int i = 0; i < n; i++) b->x[i] = b->x[i] * b->per_unit;
    b->weighted = importance != NULL;
    if (importance) batch_weigh(b->w, importance, n);
}

/* A number in the batch's unit as the file will hold it: rounded to binary16. */
INLINE vf as_half(const batch *b, vf d) { return half_round(d * b->unit) * b->per_unit; }
/* A scale, too, but one that is not zero stays at least the smallest binary16, so that tiny weights can still
 * be held by small codes and packed scales. */
INLINE vf as_stored(const batch *b, vf d) {
    vf stored = as_half(b, d);
    return vf_pick(vm_both(vf_less(vf_all(0), d), vf_at_most(stored, vf_all(0))), 0x1p-24f * b->per_unit,
                   stored);
}

/* 1 / a, or 0 where a is not positive. */
INLINE vf vf_inverse(vf a) {
    vm positive = vf_less(vf_all(0), a);
    return vf_pick(positive, 1.0f / vf_pick(positive, a, vf_all(1)), vf_all(0));
}
/* 1 / a for a of either sign, 0 for 0. */
INLINE vf vf_signed_inverse(vf a) { return vf_pick(vf_less(a, vf_all(0)), -vf_inverse(-a), vf_inverse(a)); }
