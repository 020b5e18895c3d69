/* Blocks with a scale and a minimum: x' = a q - m, q = 0..top. The search for a and m, each lane one
 * (sub-)block. */
#ifndef GQ_AFFINE_H
#define GQ_AFFINE_H

#include "quantize/simd/batch.h"

typedef struct span {
    int length;   /* of the (sub-)block */
    float top;    /* largest code */
    bool any_min; /* false: m >= 0 */
    float start_step,
        move_step; /* in codes: how far the ends of the code range are shifted at the start, and later */
} span;

/* Sums for given codes q: with sum w and sum w x, all that is needed for the error under any scale and
 * minimum. */
typedef struct form {
    vf q, qq, qx; /* sum w q, sum w q^2, sum w q x */
} form;

typedef struct affine {
    const vf *x, *w;
    vf sum_w, sum_wx;
    form f;  /* of the best codes so far */
    vf a, m; /* their least-squares scale and minimum */
} affine;

/* Which ends of the code range move, in steps: first the lower, then the upper. Outward is positive. */
static const float shifts[16][2] = {
    {0, 0},  {1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1},       {-1, -1},       {1, -1},
    {-1, 1}, {2, 0}, {0, 2}, {-2, 0}, {0, -2}, {1.5f, 1.5f}, {-1.5f, -1.5f}, {0, 0},
};

/* Codes q = nearest(x inv + offset), kept within 0..top, and their sums. */
INLINE form take(const affine *s, const span sp, bool weighted, vf inv, vf offset) {
    form f = {all(0), all(0), all(0)};
    for (int i = 0; i < sp.length; i++) {
        vf q = clamp(nearest(s->x[i] * inv + offset), all(0), all(sp.top));
        vf wq = weighted ? s->w[i] * q : q;
        f.q = f.q + wq, f.qq = f.qq + wq * q, f.qx = f.qx + wq * s->x[i];
    }
    return f;
}

INLINE void keep_form(vm better, form *best, const form *f) {
    best->q = pick(better, f->q, best->q), best->qq = pick(better, f->qq, best->qq);
    best->qx = pick(better, f->qx, best->qx);
}

/* Least squares for x ~ a q - m. Returns by how much that lowers sum w x^2. */
INLINE vf solve(const affine *s, const span sp, const form *f, vf *a, vf *m) {
    vf whole = s->sum_w * f->qq, det = whole - f->q * f->q;
    /* All codes (nearly) equal: no scale and minimum to tell apart. */
    vm flat = le(det, whole * 1e-5f);
    vf scale = (s->sum_w * f->qx - f->q * s->sum_wx) / pick(flat, all(1), det);
    vf min = (scale * f->q - s->sum_wx) / s->sum_w;
    vm alone = sp.any_min ? flat : either(flat, lt(min, all(0)));
    *a = pick(alone, f->qx * inverse(f->qq), scale);
    *m = pick(alone, all(0), min);
    return *a * f->qx - *m * s->sum_wx;
}

/* The best of several placings of the code range over the block's range. */
INLINE void start_affine(affine *s, const span sp, int tries, bool weighted) {
    vf low = sp.any_min ? s->x[0] : all(0), high = s->x[0];
    s->sum_w = all(weighted ? 0 : (float)sp.length), s->sum_wx = all(0);
    for (int i = 0; i < sp.length; i++) {
        low = smaller(s->x[i], low), high = larger(s->x[i], high);
        if (weighted) s->sum_w = s->sum_w + s->w[i];
        s->sum_wx = s->sum_wx + (weighted ? s->w[i] * s->x[i] : s->x[i]);
    }
    vf per_range = inverse(high - low);
    /* All codes zero: what a block of equal weights wants. */
    vf flat = -s->sum_wx / s->sum_w;
    s->f = (form){all(0), all(0), all(0)};
    s->a = all(0), s->m = sp.any_min ? flat : larger(flat, all(0));
    vf best = -s->m * s->sum_wx;
    for (int k = 0; k < tries; k++) {
        float lower = sp.start_step * shifts[k][0], upper = sp.start_step * shifts[k][1];
        vf inv = (sp.top + lower + upper) * per_range, a, m;
        form f = take(s, sp, weighted, inv, -low * inv - lower);
        vf gain = solve(s, sp, &f, &a, &m);
        vm better = lt(best, gain);
        best = pick(better, gain, best), s->a = pick(better, a, s->a), s->m = pick(better, m, s->m);
        keep_form(better, &s->f, &f);
    }
}

/* Codes for a move of the code range around scale and minimum: see shifts. */
INLINE form take_moved(const affine *s, const span sp, bool weighted, int k, vf scale, vf min) {
    float lower = sp.move_step * shifts[k][0], upper = sp.move_step * shifts[k][1];
    vf inv = inverse(scale) * ((sp.top + lower + upper) / sp.top);
    return take(s, sp, weighted, inv, min * inv - lower);
}

#endif
