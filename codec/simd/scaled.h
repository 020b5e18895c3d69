/* Blocks with a scale alone: x' = a v, v from a grid of code values. The search for a, each lane one
 * (sub-)block. */
#pragma once

#include "codec/simd/qat_grid.h"

/* Code values: the integers low..high, or (iq4) the 16 values of IQ4_NL, which lie between the same bounds. */
typedef struct scaled_grid {
    float low, high;
    bool iq4;
} scaled_grid;

/* The weights of the objective, for many passes: one vector each, but where a multiplication broadcasts for
 * nothing. */
#if GQ_LANES == 16 && defined(__AVX512F__)
typedef float scaled_weight;
INLINE const scaled_weight *scaled_spread(const float *w, int n, scaled_weight *scratch) {
    return (void)n, (void)scratch, w;
}
#else
typedef vf scaled_weight;
INLINE const scaled_weight *scaled_spread(const float *w, int n, scaled_weight *scratch) {
    for (int i = 0; i < n; i++) scratch[i] = vf_all(w[i]);
    return scratch;
}
#endif

/* Sums for given code values v: sum w v^2 and sum w v x. */
typedef struct scaled_sums {
    vf vv, vx;
} scaled_sums;

/* Nearest value of the IQ4_NL table, by halving: which half, quarter, eighth, sixteenth t is in. Thresholds
 * are the middles between neighbours; on one, the lower value is taken. */
INLINE vf iq4_nearest(vf t, vi *index) {
    static const float value[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
#define MIDDLE(i) vf_all(0.5f * (value[(i)-1] + value[i]))
    vm m8 = vf_less(MIDDLE(8), t);
    vm m4 = vf_less(vf_pick(m8, MIDDLE(12), MIDDLE(4)), t);
    vf t2 = vf_pick(m8, vf_pick(m4, MIDDLE(14), MIDDLE(10)), vf_pick(m4, MIDDLE(6), MIDDLE(2)));
    vm m2 = vf_less(t2, t);
    vf t1 = vf_pick(m8, vf_pick(m4, vf_pick(m2, MIDDLE(15), MIDDLE(13)), vf_pick(m2, MIDDLE(11), MIDDLE(9))),
                    vf_pick(m4, vf_pick(m2, MIDDLE(7), MIDDLE(5)), vf_pick(m2, MIDDLE(3), MIDDLE(1))));
    vm m1 = vf_less(t1, t);
#undef MIDDLE
    vi i = vi_pick(m8, vi_all(8), vi_all(0)) | vi_pick(m4, vi_all(4), vi_all(0)) |
           vi_pick(m2, vi_all(2), vi_all(0)) | vi_pick(m1, vi_all(1), vi_all(0));
    if (index) *index = i;
    return look_up16(value, i);
}

INLINE vf round_to(const scaled_grid g, vf t) {
    return g.iq4 ? iq4_nearest(t, NULL) : vf_clamp(vf_nearest(t), vf_all(g.low), vf_all(g.high));
}
/* The nearest value for x, and the code that stands for it: 0 for the lowest. */
INLINE vf round_scaled(const scaled_grid g, const sub_scales *s, vf x, vi *code) {
    vf v = g.iq4 ? iq4_nearest(x * s->inv, code) : round_to(g, x * s->inv);
    if (!g.iq4) *code = vf_nearest_int(v - g.low);
    return v * s->scale;
}

INLINE scaled_sums scaled_sum_codes(const vf *x, const scaled_weight *w, bool weighted, int n,
                                    const scaled_grid g, vf inv) {
    scaled_sums f = {vf_all(0), vf_all(0)};
    for (int i = 0; i < n; i++) {
        vf v = round_to(g, x[i] * inv);
        vf wv = weighted ? w[i] * v : v;
        f.vv = f.vv + wv * v, f.vx = f.vx + wv * x[i];
    }
    return f;
}

/* The best scale so far, as sums: the scale is vx / vv. */
typedef struct scaled_fit {
    scaled_sums f;
    vf explained; /* (sum w v x)^2 / sum w v^2: that much of sum w x^2 its least-squares scale explains */
    vf enough;    /* all of sum w x^2 but 2^-20. More is the noise of rounding, as in blocks of equal weights,
                     where every    scale is as good and all sub-blocks should choose the same */
} scaled_fit;

INLINE void keep_better(scaled_fit *kept, const scaled_sums *f) {
    vf explained = vf_smaller(f->vx * f->vx * vf_inverse(f->vv), kept->enough);
    vm better = vf_less(kept->explained, explained);
    kept->explained = vf_pick(better, explained, kept->explained);
    kept->f.vv = vf_pick(better, f->vv, kept->f.vv), kept->f.vx = vf_pick(better, f->vx, kept->f.vx);
}

/* The best of both ladders. */
INLINE scaled_fit start_scaled(const vf *x, const scaled_weight *w, bool weighted, int n, const scaled_grid g,
                               const codec_search *search) {
    vf top = x[0], xx = vf_all(0);
    for (int i = 0; i < n; i++) {
        top = vf_pick(vf_less(vf_magnitude(top), vf_magnitude(x[i])), x[i], top);
        xx = xx + (weighted ? w[i] * x[i] : x[i]) * x[i];
    }
    vf per = vf_signed_inverse(top);
    scaled_fit kept = {{vf_all(0), vf_all(0)}, vf_all(0), xx * (1.0f - 0x1p-20f)};
    const codec_ladder *lower = &search->lower, *upper = &search->upper;
    for (int k = 0; k < lower->tries + upper->tries; k++) {
        int up = k - lower->tries;
        float at = up < 0 ? g.low - lower->first - lower->step * (float)k
                          : g.high + upper->first + upper->step * (float)up;
        scaled_sums f = scaled_sum_codes(x, w, weighted, n, g, per * at);
        keep_better(&kept, &f);
    }
    return kept;
}

/* Try scales around the best: factors 1, 1 - step, 1 + step, 1 - 2 step, ... */
INLINE void move_scaled(const vf *x, const scaled_weight *w, bool weighted, int n, const scaled_grid g,
                        int moves, float step, scaled_fit *kept) {
    for (int k = 0; k < moves; k++) {
        vf inv = vf_signed_inverse(kept->f.vx * vf_inverse(kept->f.vv));
        float by = (float)((k + 1) / 2) * (k % 2 ? -step : step);
        scaled_sums f = scaled_sum_codes(x, w, weighted, n, g, inv * (1.0f + by));
        keep_better(kept, &f);
    }
}

/* The error of n weights with a scale. */
INLINE vf scaled_error(const batch *b, int first, int n, const scaled_grid g, bool weighted, vf scale) {
    vf e = vf_all(0), inv = vf_signed_inverse(scale);
    for (int i = first; i < first + n; i++)
        e = e + qat_grid_error(b->x[i], round_to(g, b->x[i] * inv) * scale, weighted, b->w[i]);
    return e;
}

/* Takes the scale of a quantization grid that the weights lie on where it is better than the search's. The
 * positive one is preferred, since zeros then decode as zeros without a sign. */
INLINE vf scaled_prefer_qat_grid(const batch *b, int n, const scaled_grid g, bool weighted, vf scale) {
    vm on = vf_less(vf_all(-1), vf_all(0));
    vf step = batch_stored(b, qat_grid_step(b->x, n, qat_grid_most(g.low, g.high), QAT_GRID_SLACK, &on));
    vm found = vf_less(vf_all(0), step);
    if (!vm_any(found)) return scale;
    vf best = step, least = scaled_error(b, 0, n, g, weighted, step);
    for (int k = 0; k < 2; k++) {
        vf other = k ? -step : scale, e = scaled_error(b, 0, n, g, weighted, other);
        vm better = vf_less(e, least);
        least = vf_pick(better, e, least), best = vf_pick(better, other, best);
    }
    return vf_pick(found, best, scale);
}

/* For a block of n with a binary16 scale of its own: the scale. */
INLINE void choose_scaled(const batch *b, int n, const scaled_grid g, const codec_search *search,
                          bool weighted, factors *f, sub_scales *s) {
    scaled_weight scratch[256];
    const scaled_weight *w = weighted ? scaled_spread(b->w, n, scratch) : NULL;
    scaled_fit best = start_scaled(b->x, w, weighted, n, g, search);
    move_scaled(b->x, w, weighted, n, g, search->moves, search->move_step, &best);
    s->scale = f->d[0] = batch_stored(b, best.f.vx * vf_inverse(best.f.vv));
    s->inv = vf_signed_inverse(s->scale);
}
