/* A block as 16-bit numbers, for comparing ways of coding it: twice as many weights per instruction, exact
 * sums. */
#pragma once

#include "codec/simd/pairs.h"

/* y = (x - low) / range in steps of 2^-15, 0 <= y < 1, and w / unit: whole numbers, at least 1, at most what
 * times the largest code is 16 bits. Without importance all w are 1. Rounding w only shifts the balance
 * between weights a little; rounding w y would move the weights themselves, those of little importance by
 * whole steps. The code of y = 0 must be zero or less under every scale that is worth trying: one subtraction
 * that stops at zero then cuts off what lies below code 0. */
typedef struct block_copy {
    vp y[16], w[16];
    vf low, range, per_range, unit;
    vf sum_w, sum_wy;
} block_copy;

/* Sums for given codes q: all that is needed for the error under any scale and minimum. */
typedef struct code_sums {
    vf q, qq, qx; /* sum w q, sum w q^2, sum w q x */
    vf w, wx;     /* sum w, sum w x: the same for all codes */
} code_sums;

/* Sixteen pairs of 31 bits would be 35 bits: with w, sums with y leave out the last four. */
INLINE vi copy_shorten(vi pair, bool weighted) { return weighted ? pair >> 4 : pair; }
INLINE vf copy_sum_y(vi sum, bool weighted) { return vi_to_float(sum) * (weighted ? 0x1p-11f : 0x1p-15f); }

/* Importance of n columns as whole numbers, 1 to `most`, the same in all lanes: into `whole`, and as pairs.
 * Returns what 1 stands for. */
INLINE float copy_weights(const float *w, int n, int most, int32_t *whole, vp *pairs) {
    float top = w[0];
    for (int i = 1; i < n; i++) top = w[i] > top ? w[i] : top;
    for (int i = 0; i < n; i += L) {
        vi v = vf_nearest_int(vf_larger(vf_load(w + i) * ((float)most / top), vf_all(1)));
        memcpy(whole + i, &v, sizeof v);
    }
    for (int i = 0; i < n / 2; i++) pairs[i] = (vp)vi_all(whole[2 * i] | whole[2 * i + 1] << 16);
    return top / (float)most;
}

/* n is 16 or 32, all x lie within low..low + range. */
INLINE void copy_block(block_copy *c, const vf *x, const float *w, int n, int bits, bool weighted, vf low,
                       vf range) {
    c->unit = vf_all(1), c->sum_w = vf_all((float)n);
    if (weighted) {
        int32_t whole[32], sum = 0;
        c->unit = vf_all(copy_weights(w, n, 0x7fff >> bits, whole, c->w));
        for (int i = 0; i < n; i++) sum += whole[i];
        c->sum_w = vf_all((float)sum);
    }
    /* A range below 2^-40 of the largest weight nearby counts as zero: its weights are taken as equal. */
    vf per = vf_pick(vf_less(vf_all(0x1p-40f), range), 32767.0f / range, vf_all(0));
    vi sum_wy = vi_all(0);
    for (int i = 0; i < n / 2; i++) {
        c->y[i] = vp_pair((x[2 * i] - low) * per, (x[2 * i + 1] - low) * per);
        sum_wy = sum_wy + copy_shorten(vp_dot(weighted ? c->w[i] : vp_all(1), c->y[i]), weighted);
    }
    c->low = low, c->range = range * (0x1p15f / 32767), c->per_range = per * 0x1p-15f;
    c->sum_wy = copy_sum_y(sum_wy, weighted);
}

/* Sums, of y, for codes q = vf_nearest(y inv - offset) kept within 0..2^bits - 1. Sixteen bits hold them up
 * to twice the largest code: beyond 0 <= inv < 2^(bits + 1), 1/2 <= offset < 2^(bits + 1) the codes are
 * others, still with sums of their own. */
INLINE code_sums copy_sum_codes(const block_copy *c, int n, int bits, bool weighted, vf inv, vf offset) {
    const int fraction = 14 - bits;
    const float one = (float)(1 << fraction);
    vp per = vp_twice(vf_nearest_int(vf_smaller(inv * one, vf_all(32767))));
    vp off = vp_twice(vf_nearest_int(vf_clamp((offset - 0.5f) * one, vf_all(0), vf_all(32767))));
    vp lone = vp_all(0);
    vi q = vi_all(0), qq = vi_all(0), qy = vi_all(0);
    for (int i = 0; i < n / 2; i++) {
        vp code = vp_smaller(vp_beyond(vp_times(c->y[i], per), off) >> fraction, vp_all((1 << bits) - 1));
        if (weighted) {
            vp wq = code * c->w[i];
            q = q + vp_dot(wq, vp_all(1)), qq = qq + vp_dot(wq, code),
            qy = qy + copy_shorten(vp_dot(wq, c->y[i]), true);
        } else {
            lone = lone + code, qq = qq + vp_dot(code, code), qy = qy + vp_dot(code, c->y[i]);
        }
    }
    if (!weighted) q = vp_dot(lone, vp_all(1));
    return (code_sums){vi_to_float(q), vi_to_float(qq), copy_sum_y(qy, weighted), c->sum_w, c->sum_wy};
}
