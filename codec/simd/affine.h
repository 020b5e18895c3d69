/* Sub-blocks with a scale and a minimum: x' = a q - m, q = 0..top, m >= 0. The search for a and m, each lane
 * one sub-block. */
#pragma once

#include "codec/simd/copy.h"
#include "codec/simd/encoder.h"

typedef struct affine_span {
    int length, bits; /* of the sub-block, of a code */
} affine_span;

/* The best codes so far. All is in terms of the copy. */
typedef struct affine_search {
    block_copy copy;
    vf least; /* m >= 0 makes the minimum at least this */
    vf per_w; /* 1 / sum w */
    code_sums f;
    vf a, m; /* its least-squares scale and minimum */
} affine_search;

/* Placings of the code range over a block's range: by how many steps the block reaches beyond its lower and
 * its upper end. Each lowers the error most after those before it, least squares and normal weights with and
 * without importance given. */
static const int8_t placings_2_bits[16][2] = {{1, 1}, {1, 0}, {0, 1},  {0, 0}, {0, 2}, {2, 0},
                                              {2, 1}, {1, 2}, {-2, 0}, {0, 3}, {3, 0}, {-1, 0},
                                              {1, 3}, {2, 2}, {0, -1}, {3, 1}};
static const int8_t placings_4_bits[20][2] = {{0, 0},  {1, 0}, {0, 1},  {-2, 0}, {1, 1}, {-1, 0}, {0, -1},
                                              {-3, 0}, {0, 2}, {0, -2}, {1, 2},  {2, 0}, {0, -3}, {2, 1},
                                              {1, -1}, {0, 3}, {-5, 0}, {-1, 1}, {1, 3}, {3, 0}};
static const int8_t placings_5_bits[20][2] = {
    {0, 0},  {-2, 0},  {1, 0},   {0, 1},   {0, -3}, {0, -2},  {-3, 0},  {0, -5}, {1, 1}, {0, -1},
    {-1, 0}, {-3, -3}, {-5, -3}, {-2, -3}, {1, 3},  {-3, -2}, {-1, -2}, {0, 2},  {2, 0}, {-1, 1}};

INLINE float top_code(const affine_span sp) { return (float)((1 << sp.bits) - 1); }

/* Sums for the codes that suit scale a and minimum m. */
INLINE code_sums affine_sum_codes(const affine_search *s, const affine_span sp, bool weighted, vf a, vf m) {
    vf inv = vf_inverse(a);
    return copy_sum_codes(&s->copy, sp.length, sp.bits, weighted, inv, -m * inv);
}

/* Error for scale a and minimum m, without sum w x^2. */
INLINE vf affine_cost(const code_sums *f, vf a, vf m) {
    return a * (a * f->qq - 2.0f * f->qx) + m * (m * f->w + 2.0f * (f->wx - a * f->q));
}

/* Least squares for y ~ a q - m, and its cost. */
INLINE vf affine_solve(const affine_search *s, const code_sums *f, vf *a, vf *m) {
    vf whole = f->w * f->qq, det = whole - f->q * f->q, across = f->w * f->qx - f->q * f->wx;
    /* All codes (nearly) equal: no scale and minimum to tell apart. */
    vm alone = vm_either(vf_at_most(det, whole * 1e-5f),
                         vf_less(across * f->q - f->wx * det, s->least * f->w * det));
    *a = vf_pick(alone, f->qx + s->least * f->q, across) / vf_larger(vf_pick(alone, f->qq, det), vf_all(1));
    *m = vf_pick(alone, s->least, (*a * f->q - f->wx) * s->per_w);
    return affine_cost(f, *a, *m);
}

INLINE void keep_form(vm better, code_sums *best, const code_sums *f) {
    best->q = vf_pick(better, f->q, best->q), best->qq = vf_pick(better, f->qq, best->qq);
    best->qx = vf_pick(better, f->qx, best->qx);
}

/* Keep these codes if that is better than those so far. */
INLINE void keep_codes(affine_search *s, const code_sums *f, vf *best) {
    vf a, m, e = affine_solve(s, f, &a, &m);
    /* Equal weights below zero would get codes that are all the same and a scale below zero. */
    vm better = vm_both(vf_less(e, *best), vf_less(vf_all(0), a));
    *best = vf_pick(better, e, *best), s->a = vf_pick(better, a, s->a), s->m = vf_pick(better, m, s->m);
    keep_form(better, &s->f, f);
}

/* The best of several placings of the code range over the block's range; then, to polish it, codes anew for
 * the best scale and minimum so far, a few times. Returns their cost. */
INLINE vf start_affine(affine_search *s, const vf *x, const float *w, const affine_span sp,
                       const codec_search *search, bool weighted) {
    vf low, high;
    vf_extremes(x, sp.length, &low, &high);
    low = vf_smaller(low, vf_all(0));
    /* Half the range more at the lower end, for copy_block's condition. */
    copy_block(&s->copy, x, w, sp.length, sp.bits, weighted, low - 0.5f * (high - low), 1.5f * (high - low));
    s->least = s->copy.low * s->copy.per_range;
    s->per_w = 1.0f / s->copy.sum_w;
    /* All codes zero: what a block of equal weights wants. */
    vf flat = -s->copy.sum_wy * s->per_w;
    s->f = (code_sums){vf_all(0), vf_all(0), vf_all(0), s->copy.sum_w, s->copy.sum_wy};
    s->a = vf_all(0), s->m = vf_larger(flat, s->least);
    vf best = affine_cost(&s->f, s->a, s->m);
    const int tries = search->placings.n;
    for (int k = 0; k < tries + search->polish; k++) {
        code_sums f;
        if (k < tries) {
            const int8_t *at = search->placings.list[k];
            float lower = search->placing_step * at[0];
            float codes = top_code(sp) + lower + search->placing_step * at[1];
            f = copy_sum_codes(&s->copy, sp.length, sp.bits, weighted, vf_all(1.5f * codes),
                               vf_all(0.5f * codes + lower));
        } else {
            f = affine_sum_codes(s, sp, weighted, s->a, s->m);
        }
        keep_codes(s, &f, &best);
    }
    return best;
}
