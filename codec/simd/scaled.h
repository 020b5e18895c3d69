/* Blocks with a scale alone: x' = a v, v from a grid of code values. The search for a, each lane one
 * (sub-)block. */
#ifndef GQ_SCALED_H
#define GQ_SCALED_H

#include "codec/simd/encoder.h"

/* Code values: the integers low..high, or (iq4) the 16 values of IQ4_NL, which lie between the same bounds.
 */
typedef struct grid {
    float low, high;
    bool iq4;
} grid;

/* The weights of the objective, for many passes: one vector each, but where a multiplication broadcasts for
 * nothing. */
#if GQ_LANES == 16 && defined(__AVX512F__)
typedef float weight;
INLINE const weight *spread(const float *w, int n, weight *room) { return (void)n, (void)room, w; }
#else
typedef vf weight;
INLINE const weight *spread(const float *w, int n, weight *room) {
    for (int i = 0; i < n; i++) room[i] = all(w[i]);
    return room;
}
#endif

/* Sums for given code values v: sum w v^2 and sum w v x. */
typedef struct scaled {
    vf vv, vx;
} scaled;

/* Nearest value of the IQ4_NL table, by halving: which half, quarter, eighth, sixteenth t is in. Thresholds
 * are the middles between neighbours; on one, the lower value is taken. */
INLINE vf iq4_nearest(vf t, vi *index) {
    static const float value[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
#define MIDDLE(i) all(0.5f * (value[(i)-1] + value[i]))
    vm m8 = lt(MIDDLE(8), t);
    vm m4 = lt(pick(m8, MIDDLE(12), MIDDLE(4)), t);
    vf t2 = pick(m8, pick(m4, MIDDLE(14), MIDDLE(10)), pick(m4, MIDDLE(6), MIDDLE(2)));
    vm m2 = lt(t2, t);
    vf t1 = pick(m8, pick(m4, pick(m2, MIDDLE(15), MIDDLE(13)), pick(m2, MIDDLE(11), MIDDLE(9))),
                 pick(m4, pick(m2, MIDDLE(7), MIDDLE(5)), pick(m2, MIDDLE(3), MIDDLE(1))));
    vm m1 = lt(t1, t);
#undef MIDDLE
    vi i = picki(m8, alli(8), alli(0)) | picki(m4, alli(4), alli(0)) | picki(m2, alli(2), alli(0)) |
           picki(m1, alli(1), alli(0));
    if (index) *index = i;
    return look_up16(value, i);
}

INLINE vf round_to(const grid g, vf t) {
    return g.iq4 ? iq4_nearest(t, NULL) : clamp(nearest(t), all(g.low), all(g.high));
}
/* The nearest value for x, and the code that stands for it: 0 for the lowest. */
INLINE vf round_scaled(const grid g, const sub_scales *s, vf x, vi *code) {
    vf v = g.iq4 ? iq4_nearest(x * s->inv, code) : round_to(g, x * s->inv);
    if (!g.iq4) *code = nearest_int(v - g.low);
    return v * s->scale;
}

INLINE scaled take_scaled(const vf *x, const weight *w, bool weighted, int n, const grid g, vf inv) {
    scaled f = {all(0), all(0)};
    for (int i = 0; i < n; i++) {
        vf v = round_to(g, x[i] * inv);
        vf wv = weighted ? w[i] * v : v;
        f.vv = f.vv + wv * v, f.vx = f.vx + wv * x[i];
    }
    return f;
}

/* The best scale so far, as sums: the scale is vx / vv. */
typedef struct fit {
    scaled f;
    vf explained; /* (sum w v x)^2 / sum w v^2: that much of sum w x^2 its least-squares scale explains */
    vf enough;    /* all of sum w x^2 but 2^-20. More is the noise of rounding, as in blocks of equal weights,
                     where every    scale is as good and all sub-blocks should choose the same */
} fit;

INLINE void keep_better(fit *kept, const scaled *f) {
    vf explained = smaller(f->vx * f->vx * inverse(f->vv), kept->enough);
    vm better = lt(kept->explained, explained);
    kept->explained = pick(better, explained, kept->explained);
    kept->f.vv = pick(better, f->vv, kept->f.vv), kept->f.vx = pick(better, f->vx, kept->f.vx);
}

/* The best of both ladders. */
INLINE fit start_scaled(const vf *x, const weight *w, bool weighted, int n, const grid g,
                        const codec_search *search) {
    vf top = x[0], xx = all(0);
    for (int i = 0; i < n; i++) {
        top = pick(lt(magnitude(top), magnitude(x[i])), x[i], top);
        xx = xx + (weighted ? w[i] * x[i] : x[i]) * x[i];
    }
    vf per = inverse(magnitude(top));
    per = pick(lt(top, all(0)), -per, per);
    fit kept = {{all(0), all(0)}, all(0), xx * (1.0f - 0x1p-20f)};
    const codec_ladder *lower = &search->lower, *upper = &search->upper;
    for (int k = 0; k < lower->tries; k++) {
        vf inv = per * (g.low - lower->first - lower->step * (float)k);
        scaled f = take_scaled(x, w, weighted, n, g, inv);
        keep_better(&kept, &f);
    }
    for (int k = 0; k < upper->tries; k++) {
        vf inv = per * (g.high + upper->first + upper->step * (float)k);
        scaled f = take_scaled(x, w, weighted, n, g, inv);
        keep_better(&kept, &f);
    }
    return kept;
}

/* Try scales around the best: factors 1, 1 - step, 1 + step, 1 - 2 step, ... */
INLINE void move_scaled(const vf *x, const weight *w, bool weighted, int n, const grid g, int moves,
                        float step, fit *kept) {
    for (int k = 0; k < moves; k++) {
        vf inv = signed_inverse(kept->f.vx * inverse(kept->f.vv));
        float by = (float)((k + 1) / 2) * (k % 2 ? -step : step);
        scaled f = take_scaled(x, w, weighted, n, g, inv * (1.0f + by));
        keep_better(kept, &f);
    }
}

/* For a block of n with a binary16 scale of its own: the scale. */
INLINE void choose_scaled(const batch *b, int n, const grid g, const codec_search *search, bool weighted,
                          factors *f, sub_scales *s) {
    weight room[256];
    const weight *w = weighted ? spread(b->w, n, room) : NULL;
    fit best = start_scaled(b->x, w, weighted, n, g, search);
    move_scaled(b->x, w, weighted, n, g, search->moves, search->move_step, &best);
    s->scale = f->d[0] = as_stored(b, best.f.vx * inverse(best.f.vv));
    s->inv = signed_inverse(s->scale);
}

#endif
