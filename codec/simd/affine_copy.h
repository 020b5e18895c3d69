/* The search of codec/simd/affine.h for blocks of 32 with a scale and a minimum of their own, each lane one.
 *
 * Codes count from the middle one here, -2^(bits-1) .. 2^(bits-1) - 1, and weights from the middle of their
 * range: additions that stop at the ends of 16 bits keep codes within theirs. Which codes are best follows
 * from what their least-squares scale and minimum explain. Neither is computed before it is needed. */
#pragma once

#include "codec/simd/affine.h"

enum { AFFINE_COPY_ELEMENTS = 32 };

/* y = (x - middle) / half, -1..1 in steps of about 2^-15; importance as whole numbers, of which the largest
 * times a code is 16 bits. */
typedef struct affine_copy {
    vp y[AFFINE_COPY_ELEMENTS / 2], w[AFFINE_COPY_ELEMENTS / 2];
    vf middle, half;
    vf sum_w, sum_wy, per_w;
    /* Of the best codes so far: their sum, with importance; their least-squares scale is across / det, and
     * across^2 / det tells how much that explains. */
    vf q, across, det, square;
} affine_copy;

INLINE void affine_copy_block(affine_copy *c, const batch *b, int bits, bool weighted) {
    enum { N = AFFINE_COPY_ELEMENTS };
    int32_t whole[N], sum = 0;
    vf low, high;
    vf_extremes(b->x, N, &low, &high);
    c->middle = 0.5f * (low + high), c->half = high - c->middle;
    /* A range below 2^-40 of the largest weight nearby counts as zero: its weights are taken as equal. */
    vf per = vf_pick(vf_less(vf_all(0x1p-41f), c->half), 32767.0f / c->half, vf_all(0));
    vi wy = vi_all(0);
    if (weighted) copy_weights(b->w, N, 0x7fff >> (bits - 1), whole, c->w);
    for (int i = 0; i < N; i++) sum += weighted ? whole[i] : 1;
    for (int i = 0; i < N / 2; i++) {
        c->y[i] = vp_pair((b->x[2 * i] - c->middle) * per, (b->x[2 * i + 1] - c->middle) * per);
        wy = wy + copy_shorten(vp_dot(weighted ? c->w[i] : vp_all(1), c->y[i]), weighted);
    }
    c->sum_w = vf_all((float)sum), c->per_w = vf_all(1.0f / (float)sum);
    c->sum_wy = copy_sum_y(wy, weighted);
    c->q = c->across = c->square = vf_all(0), c->det = vf_all(1);
}

/* Tries the codes nearest to y inv + offset; keeps them if they are better. */
INLINE void affine_copy_try(affine_copy *c, int bits, bool weighted, vf inv, vf offset) {
    const int fraction = 16 - bits;
    const float one = (float)(1 << fraction);
    const vf most = vf_all(32767);
    vp by = vp_twice(vf_nearest_int(vf_smaller(inv * one, most)));
    vp off = vp_twice(vf_nearest_int(vf_clamp((offset + 0.5f) * one, -most, most)));
    vp lone = vp_all(0);
    vi sum_q = vi_all(0), sum_qq = vi_all(0), sum_qy = vi_all(0);
    for (int i = 0; i < AFFINE_COPY_ELEMENTS / 2; i++) {
        vp code = vp_sum(vp_times(c->y[i], by), off) >> fraction, wq = weighted ? code * c->w[i] : code;
        if (weighted)
            sum_q = sum_q + vp_dot(wq, vp_all(1));
        else
            lone = lone + code;
        sum_qq = sum_qq + vp_dot(wq, code);
        sum_qy = sum_qy + copy_shorten(vp_dot(wq, c->y[i]), weighted);
    }
    if (!weighted) sum_q = vp_dot(lone, vp_all(1));
    vf q = vi_to_float(sum_q), qq = vi_to_float(sum_qq), qy = copy_sum_y(sum_qy, weighted);
    vf whole = c->sum_w * qq, det = whole - q * q, across = c->sum_w * qy - q * c->sum_wy;
    vf square = across * across;
    /* Codes that are (nearly) all equal explain nothing, nor does a scale below zero. */
    vm sound = vm_both(vf_less(whole * 1e-5f, det), vf_less(vf_all(0), across));
    vm better = vm_both(sound, vf_less(c->square * det, square * c->det));
    c->q = vf_pick(better, q, c->q), c->across = vf_pick(better, across, c->across);
    c->det = vf_pick(better, det, c->det), c->square = vf_pick(better, square, c->square);
}

/* Scale and minimum of the best codes, where codes count from 0 and the minimum is added. */
INLINE void affine_copy_choose(const batch *b, int bits, const codec_search *search, bool weighted, vf *scale,
                               vf *minimum) {
    const float top = (float)((1 << bits) - 1), middle = (float)(1 << (bits - 1)), step = search->move_step;
    const int tries = search->placings.n;
    affine_copy c;
    affine_copy_block(&c, b, bits, weighted);
    for (int k = 0; k < tries; k++) {
        const int8_t *at = search->placings.list[k];
        float lower = search->placing_step * at[0], upper = search->placing_step * at[1];
        affine_copy_try(&c, bits, weighted, vf_all(0.5f * (top + lower + upper)),
                        vf_all(0.5f * (upper - lower) - 0.5f));
    }
    /* Codes anew for the best so far, then with the range of codes moved a little at either end. */
    for (int k = -search->polish; k < search->moves; k++) {
        static const float by[8][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
        float lower = k < 0 ? 0 : step * by[k][0], upper = k < 0 ? 0 : step * by[k][1];
        float wider = (top + lower + upper) / top;
        vf inv = c.det / vf_pick(vf_less(vf_all(0), c.across), c.across, c.det);
        vf offset = (c.q - c.sum_wy * inv) * c.per_w;
        affine_copy_try(&c, bits, weighted, inv * wider, (offset + middle) * wider - lower - middle);
    }
    vf a = c.across / c.det, y = (c.sum_wy - a * c.q) * c.per_w, unit = c.half * (0x1p15f / 32767);
    *scale = a * unit, *minimum = c.middle + (y - middle * a) * unit;
}
