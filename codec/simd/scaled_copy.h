/* The search of codec/simd/scaled.h on 16-bit numbers: twice as many weights per instruction, exact sums. For
 * blocks with a scale alone whose codes fill `bits` bits. */
#pragma once

#include "codec/simd/copy.h"
#include "codec/simd/scaled.h"

/* y = x per, whole numbers, the largest of them -32767 or 32767; importance as whole numbers, of which the
 * largest times a code is 16 bits. Codes are -2^(bits-1) .. 2^(bits-1) - 1: of a grid that does not reach
 * lower than higher, both codes and y are negated. Each lane one block, of 32 or 64 weights. */
typedef struct scaled_copy {
    vp y[32], w[32];
    vf top;    /* the weight of largest magnitude */
    vf enough; /* as in scaled_fit */
} scaled_copy;

INLINE void scaled_copy_block(scaled_copy *c, const batch *b, int n, int bits, const scaled_grid g,
                              bool weighted) {
    vf low, high, yy = vf_all(0);
    int32_t w[64];
    if (weighted) copy_weights(b->w, n, 0x7fff >> (bits < 4 ? 3 : bits - 1), w, c->w);
    vf_extremes(b->x, n, &low, &high);
    c->top = vf_pick(vf_less(high, -low), low, high);
    vf per = vf_signed_inverse(c->top) * (g.high < -g.low ? 32767.0f : -32767.0f);
    for (int i = 0; i < n / 2; i++) {
        vf first = b->x[2 * i] * per, second = b->x[2 * i + 1] * per;
        c->y[i] = vp_pair(first, second);
        first = vf_nearest(first), second = vf_nearest(second);
        yy = yy + (weighted ? (float)w[2 * i] * first : first) * first;
        yy = yy + (weighted ? (float)w[2 * i + 1] * second : second) * second;
    }
    c->enough = yy * (1.0f - 0x1p-20f);
}

/* Codes are products of 16 bits, doubled so many times that those beyond their ends stop there. Few codes may
 * have to hold weights that lie farther beyond. */
INLINE int scaled_copy_doublings(int bits) { return bits < 4 ? 2 : 1; }
/* The multiplier that gives codes y inv / 32767. */
INLINE vp scaled_copy_factor(int bits, vf inv) {
    vf by = inv * ((float)(1 << (31 - bits - scaled_copy_doublings(bits))) / 32767.0f);
    return vp_twice(vf_nearest_int(vf_clamp(by, vf_all(-32767), vf_all(32767))));
}
/* Sums, of y, for the codes that such a factor makes. */
INLINE scaled_sums scaled_copy_sum(const scaled_copy *c, int n, int bits, bool weighted, vp by) {
    vi vv = vi_all(0), vy = vi_all(0);
    for (int i = 0; i < n / 2; i++) {
        vp code = vp_times(c->y[i], by);
        for (int k = 0; k < scaled_copy_doublings(bits); k++) code = vp_sum(code, code);
        code = vp_sum(code, vp_all(1 << (15 - bits))) >> (16 - bits);
        vp wv = weighted ? code * c->w[i] : code;
        vv = vv + vp_dot(wv, code), vy = vy + copy_shorten(vp_dot(wv, c->y[i]), weighted);
    }
    return (scaled_sums){vi_to_float(vv), vi_to_float(vy) * (weighted ? 16.0f : 1.0f)};
}

/* The best scale so far, as sums. */
typedef struct scaled_copy_fit {
    scaled_sums f;
    vf square; /* vx^2, no more than counts: that over vv is what the scale explains */
} scaled_copy_fit;

/* keep_better without a division. */
INLINE void scaled_copy_keep(const scaled_copy *c, scaled_copy_fit *kept, const scaled_sums *f) {
    vf square = vf_smaller(f->vx * f->vx, c->enough * f->vv);
    vm better = vf_less(kept->square * f->vv, square * kept->f.vv);
    kept->square = vf_pick(better, square, kept->square);
    kept->f.vv = vf_pick(better, f->vv, kept->f.vv), kept->f.vx = vf_pick(better, f->vx, kept->f.vx);
}

/* choose_scaled on 16-bit numbers. */
INLINE void choose_copied(const batch *b, int n, int bits, const scaled_grid g, const codec_search *search,
                          bool weighted, factors *f, sub_scales *s) {
    const codec_ladder *lower = &search->lower, *upper = &search->upper;
    scaled_copy c;
    scaled_copy_fit kept = {{vf_all(1), vf_all(0)}, vf_all(0)};
    scaled_copy_block(&c, b, n, bits, g, weighted);
    for (int k = 0; k < lower->tries + upper->tries + search->moves; k++) {
        int up = k - lower->tries, move = up - upper->tries;
        vf inv; /* times 32767, of y: where the largest weight is put */
        if (up < 0) {
            inv = vf_all(g.low - lower->first - lower->step * (float)k);
        } else if (move < 0) {
            inv = vf_all(g.high + upper->first + upper->step * (float)up);
        } else {
            float by = (float)((move + 1) / 2) * (move % 2 ? -search->move_step : search->move_step);
            inv = vf_signed_inverse(kept.f.vx * vf_inverse(kept.f.vv)) * (1.0f + by) * 32767.0f;
        }
        scaled_sums sums = scaled_copy_sum(&c, n, bits, weighted, scaled_copy_factor(bits, inv));
        scaled_copy_keep(&c, &kept, &sums);
    }
    vf scale = batch_stored(b, kept.f.vx * vf_inverse(kept.f.vv) * c.top * (1 / 32767.0f));
    s->scale = f->d[0] = scaled_prefer_qat_grid(b, n, g, weighted, scale);
    s->inv = vf_signed_inverse(s->scale);
}
