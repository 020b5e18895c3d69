/* Blocks with a scale and a minimum: x' = a q - m, q = 0..top. The search for a and m, each lane one
 * (sub-)block. */
#ifndef GQ_AFFINE_H
#define GQ_AFFINE_H

#include "quantize/simd/batch.h"

typedef struct span {
    int length;                /* of the (sub-)block */
    float top;                 /* largest code */
    bool any_min;              /* false: m >= 0 */
    const int8_t (*starts)[2]; /* placings of the code range: see start_affine */
    float step;                /* of these, in codes */
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

/* Placings of the code range over a block's range: by how many steps the block reaches beyond its lower and
 * its upper end. Each lowers the error most after those before it, least squares and normal weights with and
 * without importance given. */
static const int8_t starts_2_bits[16][2] = {{1, 1}, {1, 0}, {0, 1},  {0, 0}, {0, 2}, {2, 0},
                                            {2, 1}, {1, 2}, {-2, 0}, {0, 3}, {3, 0}, {-1, 0},
                                            {1, 3}, {2, 2}, {0, -1}, {3, 1}};
static const int8_t starts_4_bits[20][2] = {{0, 0},  {1, 0}, {0, 1},  {-2, 0}, {1, 1}, {-1, 0}, {0, -1},
                                            {-3, 0}, {0, 2}, {0, -2}, {1, 2},  {2, 0}, {0, -3}, {2, 1},
                                            {1, -1}, {0, 3}, {-5, 0}, {-1, 1}, {1, 3}, {3, 0}};
static const int8_t starts_5_bits[20][2] = {
    {0, 0},  {-2, 0},  {1, 0},   {0, 1},   {0, -3}, {0, -2},  {-3, 0},  {0, -5}, {1, 1}, {0, -1},
    {-1, 0}, {-3, -3}, {-5, -3}, {-2, -3}, {1, 3},  {-3, -2}, {-1, -2}, {0, 2},  {2, 0}, {-1, 1}};

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

/* The best of several placings of the code range over the block's range; then, to polish it, codes anew for
 * the best scale and minimum so far, a few times. */
INLINE void start_affine(affine *s, const span sp, int tries, int polish, bool weighted) {
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
    for (int k = 0; k < tries + polish; k++) {
        vf inv = inverse(s->a), offset = s->m * inv;
        if (k < tries) {
            float lower = sp.step * sp.starts[k][0], upper = sp.step * sp.starts[k][1];
            inv = (sp.top + lower + upper) * per_range, offset = -low * inv - lower;
        }
        vf a, m;
        form f = take(s, sp, weighted, inv, offset);
        vf gain = solve(s, sp, &f, &a, &m);
        /* Of equal weights below zero, codes that are all the same would make a scale below zero. */
        vm better = both(lt(best, gain), lt(all(0), a));
        best = pick(better, gain, best), s->a = pick(better, a, s->a), s->m = pick(better, m, s->m);
        keep_form(better, &s->f, &f);
    }
}

#endif
