/* Encoders of the types that code weights by entries of a grid, all at once and step by step: the part that
 * is the same for all of them. Without importance all weights of the search are 1: multiplying by these
 * changes no bit and costs little beside the search itself, which then is compiled once. The search for
 * scales, each lane one super-block:
 *   1. per sub-block, scales around one that moments of its weights suggest;
 *   2. d: sizes around the largest scale over the largest packed one, judged by what packed scales make of
 * the codes;
 *   3. codes at the packed scales, which rounding chooses anew. */
#pragma once

#include "codec/simd/grid_search.h"

enum { MOST_SUBS = 16 };

/* The result of choosing a block's scales, and its codes. */
typedef struct grid_state {
    factors f; /* one, without its sign */
    vf sign;
    vf sc[MOST_SUBS],
        scale[MOST_SUBS]; /* sc: 2 s + 1 for the stored s; scale: factor of the levels, without the sign */
    vi down[MOST_SUBS];   /* whether the shift of a sub-block is downward */
    vi digits[64], signs[64]; /* of entries; of steps */
    float w[256];
    bool thorough;
} grid_state;

/* ---- the search for scales ---- */
typedef struct grid_scales {
    vf d, error;
    vf sc[MOST_SUBS];
} grid_scales;

/* The best scale, nearly. What moments say is nearer to it than the mean square alone: constants are fitted,
 * exponents such that square roots will do. all: sum w. */
INLINE vf estimate_scale(const grid_type t, const vf *x, const float *w, vf *all) {
    vf sum = vf_all(0), m1 = vf_all(0x1p-60f), m2 = m1, m4 = vf_all(0x1p-120f), top = vf_all(0x1p-30f);
    for (int i = 0; i < t.length; i++) {
        const vf v = vf_magnitude(x[i]), wv = w[i] * v, wvv = wv * v;
        sum = sum + vf_all(w[i]);
        m1 = m1 + wv, m2 = m2 + wvv, m4 = m4 + wvv * (v * v), top = vf_larger(top, v);
    }
    *all = sum;
    const vf r = vf_root(m2 / sum);
    if (grid_is_shifted(t)) { /* r (r / m1)^1.5 */
        const vf q = r * sum / m1;
        return t.estimate * (r * q * vf_root(q));
    }
    if (t.size == 8) { /* r (m4 / r^4)^0.3125 */
        const vf q = vf_root(vf_root(m4 * sum / (m2 * m2)));
        return t.estimate * (r * q * vf_root(vf_root(q)));
    }
    const vf q = vf_root(top / r); /* r (top / r)^0.8125 */
    return t.estimate * (r * q * vf_root(q) * vf_root(vf_root(vf_root(q))));
}

/* Steps of a sub-block, begun. */
typedef struct grid_sub_steps {
    grid_step first[4 * 2], second[4 * 2];
} grid_sub_steps;

/* Returns sum w x, x as entries see them. */
INLINE vf start_steps(const grid_type t, const vf *x, const float *w, vf a, bool thorough,
                      grid_sub_steps *s) {
    const bool second = thorough && t.signs == GRID_SIGNS_EVEN;
    vf sum = vf_all(0);
    for (int i = 0, k = 0; i < t.length; i += t.step, k++) {
        start_step(t, x + i, w + i, a, &s->first[k], second ? &s->second[k] : NULL);
        for (int n = 0; n < t.step; n++) sum = sum + w[i + n] * s->first[k].x[n];
    }
    return sum;
}
/* Sums for the best codes at scale a. */
INLINE grid_sums code_sub_block(const grid_type t, const grid_sub_steps *s, const float *w, vf a, vi down,
                                bool thorough) {
    grid_sums sums = {vf_all(0), vf_all(0)};
    for (int i = 0, k = 0; i < t.length; i += t.step, k++) {
        const grid_step *second = thorough && t.signs == GRID_SIGNS_EVEN ? &s->second[k] : NULL;
        const grid_sums one = code_best(t, &s->first[k], second, w + i, a, down, thorough).sums;
        sums.vv = sums.vv + one.vv, sums.vx = sums.vx + one.vx;
    }
    return sums;
}
/* The same with the better shift, where one serves a sub-block. */
INLINE grid_sums code_shifted(const grid_type t, const grid_sub_steps *s, const vf *x, const float *w, vf a,
                              bool thorough, vi *down) {
    *down = vi_all(0);
    if (t.signs == GRID_SHIFT_OF_SUB_BLOCK && !thorough) *down = likely_shift(x, w, t.length, a);
    grid_sums sums = code_sub_block(t, s, w, a, *down, thorough);
    if (t.signs == GRID_SHIFT_OF_SUB_BLOCK && thorough) {
        const grid_sums other = code_sub_block(t, s, w, a, vi_all(1), thorough);
        const vm m = vf_less(coded_error(other, a), coded_error(sums, a));
        *down = vi_pick(m, vi_all(1), vi_all(0));
        pick_sums(m, &other, &sums);
    }
    return sums;
}

/* Step 1: sums for the best of several scales. */
INLINE grid_sums search_scale(const grid_type t, const vf *x, const float *w, const codec_search *search) {
    const float ratio = search->grid.ratio, down_half = 1 / sqrtf(ratio);
    vf sum, a = estimate_scale(t, x, w, &sum), most = vf_all(-1);
    grid_sub_steps s;
    const vf sum_x = start_steps(t, x, w, a, search->grid.thorough, &s);
    /* There are as many tries below the estimate as above it. */
    for (int k = 1; k < search->grid.tries; k++) a = a * down_half;
    grid_sums best = {vf_all(1), vf_all(0)};
    if (!grid_is_shifted(t)) { /* the same level everywhere, which every grid has */
        best.vv = sum * (t.level[0] * t.level[0]), best.vx = sum_x * t.level[0];
        most = best.vx * best.vx * (1.0f / best.vv);
    }
    for (int k = 0; k < search->grid.tries; k++, a = a * ratio) {
        vi down;
        const grid_sums sums = code_shifted(t, &s, x, w, a, search->grid.thorough, &down);
        const vf explained = sums.vx * sums.vx * (1.0f / sums.vv); /* no value is 0 */
        pick_sums(vf_less(most, explained), &sums, &best);
        most = vf_larger(explained, most);
    }
    return best;
}

/* The odd number nearest to a inv, at most t.top; a, inv >= 0. */
INLINE vf packed_odd(const grid_type t, vf a, vf inv) {
    const float magic = 2 * MAGIC; /* leaves multiples of 2: as vf_nearest rounds half of it */
    return vf_smaller(((a * inv - 1.0f) + magic) - magic + 1.0f, vf_all(t.top));
}

/* Steps 1 and 2, of weights as they are or with their signs changed. */
INLINE void search_scales(const grid_type t, const batch *b, const vf *x, const float *w,
                          const codec_search *search, grid_scales *out) {
    const int subs = 256 / t.length;
    vf a[MOST_SUBS], twice[MOST_SUBS], vv[MOST_SUBS], top = vf_all(0);
    for (int k = 0; k < subs; k++) {
        const grid_sums best = search_scale(t, x + k * t.length, w + k * t.length, search);
        a[k] = vf_larger(best.vx / best.vv, vf_all(0)), twice[k] = 2.0f * a[k], vv[k] = best.vv;
        top = vf_larger(top, a[k]);
    }
    out->d = vf_all(0), out->error = vf_all(1e30f);
    /* Four at a time (then some more than asked for), as each alone would wait for its division and its sum.
     */
    for (int k = 0; k < search->factors; k += 4) {
        vf d[4], per_unit[4], inv[4], e[4];
        for (int f = 0; f < 4; f++) {
            const float size = 0.85f + 0.75f * (float)(k + f) / (float)(search->factors - 1);
            d[f] = as_stored(b, top * (size / (t.top * t.unit))), per_unit[f] = d[f] * t.unit;
            inv[f] = vf_inverse(per_unit[f]), e[f] = vf_all(0);
        }
        for (int i = 0; i < subs; i++)
            for (int f = 0; f < 4; f++) {
                const vf packed = packed_odd(t, a[i], inv[f]) * per_unit[f];
                e[f] = e[f] + packed * vv[i] * (packed - twice[i]);
            }
        for (int f = 0; f < 4; f++) {
            out->d = vf_pick(vf_less(e[f], out->error), d[f], out->d);
            out->error = vf_smaller(e[f], out->error);
        }
    }
    const vf inv = vf_inverse(out->d * t.unit);
    for (int k = 0; k < subs; k++) out->sc[k] = packed_odd(t, a[k], inv);
}

/* Grids of shifted types hold other entries than their negatives: the sign of the factor matters. */
INLINE void choose_grid(const grid_type t, const batch *b, const codec_search *search, grid_state *s) {
    const int subs = 256 / t.length;
    vf x[256];
    grid_scales chosen = {.d = vf_all(0), .error = vf_all(0)}, found;
    s->f = (factors){.unit = b->unit, .per_unit = b->per_unit};
    s->sign = vf_all(1), s->thorough = search->grid.thorough;
    for (int i = 0; i < 256; i++) s->w[i] = b->weighted ? b->w[i] : 1;
    if (search->grid.negative)
        for (int i = 0; i < 256; i++) x[i] = -b->x[i];
    for (int negative = 0; negative <= search->grid.negative; negative++) { /* one loop: compiled once */
        search_scales(t, b, negative ? x : b->x, s->w, search, &found);
        if (!negative) {
            chosen = found;
            continue;
        }
        const vm better = vf_less(found.error, chosen.error);
        s->sign = vf_pick(better, vf_all(-1), vf_all(1));
        chosen.d = vf_pick(better, found.d, chosen.d);
        for (int k = 0; k < subs; k++) chosen.sc[k] = vf_pick(better, found.sc[k], chosen.sc[k]);
    }
    s->f.d[0] = chosen.d;
    for (int k = 0; k < subs; k++) {
        s->sc[k] = chosen.sc[k], s->scale[k] = chosen.d * t.unit * chosen.sc[k];
        s->down[k] = vi_all(0);
        if (t.signs != GRID_SHIFT_OF_SUB_BLOCK) continue;
        grid_sub_steps steps;
        const float *w = s->w + k * t.length;
        for (int i = 0; i < t.length; i++) x[i] = b->x[k * t.length + i] * s->sign;
        const vf a = vf_larger(s->scale[k], vf_all(0x1p-60f));
        if (s->thorough) {
            start_steps(t, x, w, a, true, &steps);
            code_shifted(t, &steps, x, w, a, true, &s->down[k]);
        } else {
            s->down[k] = likely_shift(x, w, t.length, a);
        }
    }
}

/* ---- rounding ---- */
INLINE void round_grid(const grid_type t, grid_state *s, int column, const vf *from, vf *y) {
    const int sub = column / t.length;
    /* In a block of zeros codes do not matter. */
    const vf a = vf_larger(s->scale[sub], vf_all(0x1p-60f));
    const bool both = s->thorough && t.signs == GRID_SIGNS_EVEN;
    vf x[8];
    grid_step first, second;
    for (int i = 0; i < t.step; i++) x[i] = from[i] * s->sign;
    start_step(t, x, s->w + column, a, &first, both ? &second : NULL);
    grid_code c = code_best(t, &first, both ? &second : NULL, s->w + column, a, s->down[sub], s->thorough);
    if (!grid_is_shifted(t))
        for (int i = 0; i < t.step; i++) c.signs = c.signs ^ (vf_bits(x[i]) >> 31 & 1 << i);
    for (int k = 0; k < t.step / t.size; k++) s->digits[column / t.size + k] = c.digits[k];
    s->signs[column / t.step] = c.signs;
    const vf scale = s->scale[sub] * s->sign, shift = shift_of(c.signs);
    for (int i = 0; i < t.step; i++) {
        const vf v = level_at(t, &c, i, shift) * scale;
        y[i] = grid_is_shifted(t) ? v : change_sign(v, c.signs, i);
    }
}

/* The lowest and the highest value of the weights in a sub-block. */
INLINE void ends_of_grid(const grid_type t, const grid_state *s, int column, vf *low, vf *high) {
    const int sub = column / t.length;
    const float top = t.level[t.size == 8 ? 2 : 7];
    vf above = vf_all(top), below = vf_all(-top);
    if (t.signs == GRID_SHIFT_OF_ENTRY) above = above + 0.125f, below = below - 0.125f;
    if (t.signs == GRID_SHIFT_OF_SUB_BLOCK)
        above = above + shift_of(s->down[sub]), below = below + shift_of(s->down[sub]);
    const vf scale = s->scale[sub] * s->sign;
    *low = vf_smaller(below * scale, above * scale), *high = vf_larger(below * scale, above * scale);
}

/* ---- gain ---- */
/* First the least squares, then what they lack to a projection of 1: the sum is rounded so in all files. At
 * one bit a least-squares code lacks a fifth of its block's projection. All of it is kept, as elsewhere: that
 * costs error, but six tenths of it give 20 % higher KL divergence, and 1.2 no lower
 * (bench/results/small-models.md). */
INLINE vf gain_of_grid(const projection p) {
    const vf least = p.xy * vf_inverse(p.yy), whole = p.xx * vf_inverse(p.xy);
    const vf gain = least + (whole - least);
    return vf_pick(vm_both(vf_less(vf_all(0), p.xy), vf_less(vf_all(0), gain)),
                   vf_clamp(gain, vf_all(0.75f), vf_all(1.5f)), vf_all(1));
}

/* ---- packing: what types do with it ---- */
/* The fields of a block, each in its lane. */
typedef struct grid_fields {
    vi index[64], signs[64], s[MOST_SUBS], down[MOST_SUBS];
    vi d;
} grid_fields;

INLINE void finish_grid(const grid_type t, const grid_state *s, vf gain, grid_fields *f) {
    for (int k = 0; k < 256 / t.size; k++) f->index[k] = index_of(t, s->digits[k]);
    for (int k = 0; k < 256 / t.step; k++) f->signs[k] = s->signs[k];
    for (int k = 0; k < 256 / t.length; k++) f->s[k] = (vf_to_int(s->sc[k])) >> 1, f->down[k] = s->down[k];
    f->d = half_bits(s->f.d[0] * s->sign * gain * s->f.unit);
}
