/* Searches for the scale of a sub-block of 16 weights on 16-bit numbers, for super-blocks of sub-blocks with a
 * scale alone: twice as many weights per instruction as floats, and exact sums. Each lane one sub-block.
 *
 *     clipped_    codes of few bits, where the best scale clips some weights: codes are computed in numbers
 *                 that saturate at the ends of 16 bits, which are the ends of the codes
 *     wrapped_    codes of many bits, where it clips none: no codes are computed at all, see there
 */
#pragma once

#include "codec/simd/copy.h"
#include "codec/simd/scaled.h"

enum { COPY_LENGTH = 16, COPY_PAIRS = COPY_LENGTH / 2, COPY_LEAST_WEIGHT = 8 };

/* y = x per, whole numbers, the largest of them -most. Importance as whole numbers. */
typedef struct sub_block_copy {
    vp y[COPY_PAIRS], w[COPY_PAIRS];
    vp wy[COPY_PAIRS]; /* clipped_ alone: importance times y */
    vf x_per_y;        /* 1 / per */
    vf other;          /* the largest y of the other sign */
    float unit;        /* importance that 1 stands for */
} sub_block_copy;

INLINE void copy_sub_block(sub_block_copy *c, const vf *x, const float *w, bool weighted, float most,
                           int most_weight) {
    int32_t whole[COPY_LENGTH];
    vf low, high;
    c->unit = weighted ? copy_weights(w, COPY_LENGTH, most_weight, whole, c->w) : 1.0f;
    if (weighted) /* products with less would be rounded to nothing */
        for (int i = 0; i < COPY_PAIRS; i++)
            c->w[i] = vp_all(COPY_LEAST_WEIGHT) + vp_beyond(c->w[i], vp_all(COPY_LEAST_WEIGHT));
    vf_extremes(x, COPY_LENGTH, &low, &high);
    vm down = vf_less(high, -low);
    vf top = vf_pick(down, low, high);
    /* A sub-block below 2^-40 of the largest weight nearby counts as zero. */
    vm some = vf_less(vf_all(0x1p-40f), vf_magnitude(top));
    vf per = vf_pick(some, -most / vf_pick(some, top, vf_all(1)), vf_all(0));
    for (int i = 0; i < COPY_PAIRS; i++) c->y[i] = vp_pair(x[2 * i] * per, x[2 * i + 1] * per);
    c->x_per_y = top * (-1.0f / most), c->other = vf_pick(down, high, low) * per;
}

/* ---- clipped ---- */
/* Codes -4 .. 3, in steps of 2^-13. */
enum { CLIPPED_FRACTION = 13, CLIPPED_WEIGHT = 8191 /* times a code: 16 bits */ };

/* The best scale so far, as sums of y. */
typedef struct clipped_fit {
    scaled_sums f;
    vf square; /* f.vx^2, no more than counts: that over f.vv is what the scale explains */
    vf enough; /* as in scaled_fit */
} clipped_fit;

INLINE void clipped_keep(clipped_fit *kept, const scaled_sums *f) {
    vf square = vf_smaller(f->vx * f->vx, kept->enough * f->vv);
    vm better = vf_less(kept->square * f->vv, square * kept->f.vv);
    kept->square = vf_pick(better, square, kept->square);
    kept->f.vv = vf_pick(better, f->vv, kept->f.vv), kept->f.vx = vf_pick(better, f->vx, kept->f.vx);
}

/* Adds the sums for the codes nearest to t, a pair of weights. */
INLINE void clipped_add(const sub_block_copy *c, bool weighted, int i, vp t, vi *vv, vi *vy) {
    vp code = vp_sum(t, vp_all(1 << (CLIPPED_FRACTION - 1))) >> CLIPPED_FRACTION;
    *vv = *vv + vp_dot(weighted ? code * c->w[i] : code, code);
    *vy = *vy + vp_dot(code, weighted ? c->wy[i] : c->y[i]);
}

/* The sums of a sub-block, of x and with the weights of the objective. */
INLINE scaled_sums clipped_sums(const sub_block_copy *c, bool weighted, scaled_sums f) {
    vf per_y = c->x_per_y * (weighted ? 8192.0f * c->unit : 1.0f);
    return (scaled_sums){f.vv * c->unit, f.vx * per_y};
}

/* Tries scales that put the largest weight at code `at`, and `step` further each. */
INLINE void clipped_climb(const sub_block_copy *c, bool weighted, float at, float step, int tries,
                          clipped_fit *kept) {
    const float one = 32767.0f / 4; /* y of the largest weight as t: four codes */
    vp t[COPY_PAIRS], by[COPY_PAIRS];
    for (int i = 0; i < COPY_PAIRS; i++) {
        t[i] = vp_times(c->y[i], vp_all((int)(at * one)));
        by[i] = vp_times(c->y[i], vp_all((int)(step * one)));
    }
    for (int k = 0; k < tries; k++) {
        vi vv = vi_all(0), vy = vi_all(0);
        for (int i = 0; i < COPY_PAIRS; i++) {
            clipped_add(c, weighted, i, t[i], &vv, &vy);
            t[i] = vp_sum(t[i], by[i]);
        }
        scaled_sums f = {vi_to_float(vv), vi_to_float(vy)};
        clipped_keep(kept, &f);
    }
}

/* The best of both ladders. */
INLINE scaled_sums start_clipped(sub_block_copy *c, const vf *x, const float *w, bool weighted,
                                 const codec_search *search) {
    const codec_ladder *lower = &search->lower, *upper = &search->upper;
    clipped_fit kept = {{vf_all(1), vf_all(0)}, vf_all(0), vf_all(0)};
    vi yy = vi_all(0);
    copy_sub_block(c, x, w, weighted, 32767, CLIPPED_WEIGHT);
    for (int i = 0; i < COPY_PAIRS; i++) {
        vp eighth = vp_times(c->y[i], vp_all(1 << 12));
        if (weighted) c->wy[i] = vp_times(c->y[i], c->w[i] * 4);
        yy = yy + vp_dot(eighth, weighted ? c->wy[i] : c->y[i]);
    }
    kept.enough = vi_to_float(yy) * (8 * (1.0f - 0x1p-20f) / (weighted ? 8192.0f : 1.0f));
    clipped_climb(c, weighted, 4 + lower->first, lower->step, lower->tries, &kept);
    clipped_climb(c, weighted, -3 - upper->first, -upper->step, upper->tries, &kept);
    return clipped_sums(c, weighted, kept.f);
}

/* Sums for the codes that suit a scale, of which `inv` is the inverse. */
INLINE scaled_sums clipped_sum_codes(const sub_block_copy *c, bool weighted, vf inv) {
    vi vv = vi_all(0), vy = vi_all(0);
    vf by = inv * c->x_per_y * 0x1p27f; /* half of t's, so that codes up to 8 are distinguished */
    vp factor = vp_twice(vf_nearest_int(vf_clamp(by, vf_all(-32767), vf_all(32767))));
    for (int i = 0; i < COPY_PAIRS; i++) {
        vp t = vp_times(c->y[i], factor);
        clipped_add(c, weighted, i, vp_sum(t, t), &vv, &vy);
    }
    return clipped_sums(c, weighted, (scaled_sums){vi_to_float(vv), vi_to_float(vy)});
}

/* ---- wrapped ---- */
/* With scales that are multiples k of one, k y modulo 2^16 is 2^16 times what rounding to a code leaves: r,
 * which is one addition further for the next k. From the sums of w y^2, w y r and w r^2 follow all others:
 * codes are (k y - r) / 2^16. */
enum { WRAPPED_WEIGHT = 4095 /* times 2^15, sixteen times: 32 bits */ };

/* a + b and a times `by` modulo 2^16. */
typedef uint16_t vp_unsigned __attribute__((vector_size(4 * GQ_LANES)));
INLINE vp vp_plus(vp a, vp b) { return (vp)((vp_unsigned)a + (vp_unsigned)b); }
INLINE vp vp_wrapped(vp a, int by) { return (vp)((vp_unsigned)a * (vp_unsigned)vp_all(by)); }

INLINE scaled_sums start_wrapped(const vf *x, const float *w, bool weighted, const scaled_grid g,
                                 const codec_search *search) {
    const codec_ladder *lower = &search->lower;
    const float per_code = (float)(int)(1 / lower->step + 0.5f); /* scales from a code to the next */
    const int first = (int)((-g.low + lower->first) * per_code);
    const int end = (int)((-g.low + 0.5f) * per_code); /* behind it the largest weight is clipped */
    sub_block_copy c;
    vp r[COPY_PAIRS];
    vi sum_yy = vi_all(0);
    copy_sub_block(&c, x, w, weighted, 65536.0f / per_code - 1, WRAPPED_WEIGHT);
    for (int i = 0; i < COPY_PAIRS; i++) {
        sum_yy = sum_yy + vp_dot(vp_times(c.y[i], weighted ? c.w[i] : vp_all(WRAPPED_WEIGHT)), c.y[i]);
        r[i] = vp_wrapped(c.y[i], first);
    }
    vf yy = vi_to_float(sum_yy), inv = vf_inverse(yy), enough = yy * 0x1p-20f;
    vf least = vf_all(INFINITY), at = vf_all(0), yr_at = vf_all(0);
    for (int k = first; k < first + lower->tries && k <= end; k++) {
        vi sum_yr = vi_all(0), sum_rr = vi_all(0);
        for (int i = 0; i < COPY_PAIRS; i++) {
            vp wr = vp_times(r[i], weighted ? c.w[i] : vp_all(WRAPPED_WEIGHT));
            sum_yr = sum_yr + vp_dot(wr, c.y[i]), sum_rr = sum_rr + vp_dot(wr, r[i]);
            r[i] = vp_plus(r[i], c.y[i]);
        }
        vf yr = vi_to_float(sum_yr);
        vf e = (vi_to_float(sum_rr) - yr * (yr * inv)) * (1 / ((float)k * (float)k));
        e = vf_larger(e, enough);
        vm better = vf_less(e, least);
        /* The other end of the codes comes a code earlier. */
        float most = (g.high + 0.5f) * 65536.0f / (float)k;
        if (most < 32767) better = vm_both(better, vf_at_most(c.other, vf_all(most)));
        least = vf_pick(better, e, least), at = vf_pick(better, vf_all((float)k), at);
        yr_at = vf_pick(better, yr, yr_at);
    }
    vf rr = least * at * at + yr_at * (yr_at * inv), qy = at * yy - yr_at;
    vf unit = vf_all(weighted ? c.unit : 1.0f / WRAPPED_WEIGHT);
    return (scaled_sums){unit * 0x1p-17f * (at * (qy - yr_at) + rr), unit * 0.5f * qy * c.x_per_y};
}
