/* Encoders of IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S: indices into grids, which are searched
 * exactly (codec/simd/grid_search.h).
 *
 * First what these types have in common. Without importance all weights of the search are 1: multiplying by
 * these changes no bit and costs little beside the search itself, which then is compiled once. The search for
 * scales, each lane one super-block:
 *   1. per sub-block, scales around one that moments of its weights suggest;
 *   2. d: sizes around the largest scale over the largest packed one, judged by what packed scales make of the codes;
 *   3. codes at the packed scales, which rounding chooses anew.
 *
 * Then what each type has of its own: how its fields are packed, the numbers of its search at each effort,
 * and a grid_type with its entries, levels and signs. */
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
    /* Four at a time (then some more than asked for), as each alone would wait for its division and its sum. */
    for (int k = 0; k < search->factors; k += 4) {
        vf d[4], per_unit[4], inv[4], e[4];
        for (int f = 0; f < 4; f++) {
            const float size = 0.85f + 0.75f * (float)(k + f) / (float)(search->factors - 1);
            d[f] = batch_stored(b, top * (size / (t.top * t.unit))), per_unit[f] = d[f] * t.unit;
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

/* ---- packing ---- */
/* Four numbers of seven bits, and one of four above them. */
INLINE vi pack_sevens(const vi *signs, vi top) {
    return (signs[0] & 127) | (signs[1] & 127) << 7 | (signs[2] & 127) << 14 | (signs[3] & 127) << 21 |
           top << 28;
}
/* n numbers of eight bits; n of four bits, a multiple of eight. */
INLINE void pack_low_bytes(const vi *from, int n, vi *words) {
    vi bytes[64];
    for (int i = 0; i < n; i++) bytes[i] = from[i] & 255;
    pack_bytes(bytes, n, words);
}
INLINE void grid_pack_nibbles(const vi *from, int n, vi *words) {
    for (int i = 0; i < n; i += 8) {
        words[i / 8] = from[i];
        for (int k = 1; k < 8; k++) words[i / 8] = words[i / 8] | from[i + k] << 4 * k;
    }
}

INLINE void pack_iq2_xxs(const grid_fields *f, vi *words) {
    for (int k = 0; k < 8; k++) {
        pack_bytes(f->index + 4 * k, 4, words + 2 * k);
        words[2 * k + 1] = pack_sevens(f->signs + 4 * k, f->s[k]);
    }
    prepend_words(words, 16, f->d, 16);
}

INLINE void pack_iq2_xs(const grid_fields *f, vi *words) {
    for (int k = 0; k < 16; k++) {
        const vi *index = f->index + 2 * k, *signs = f->signs + 2 * k;
        words[k] = index[0] | (signs[0] & 127) << 9 | index[1] << 16 | (signs[1] & 127) << 25;
    }
    grid_pack_nibbles(f->s, 16, words + 16);
    prepend_words(words, 18, f->d, 16);
}

INLINE void pack_iq2_s(const grid_fields *f, vi *words) {
    pack_low_bytes(f->index, 32, words);
    pack_bytes(f->signs, 32, words + 8);
    for (int k = 0; k < 2; k++) {
        words[16 + k] = vi_all(0);
        for (int i = 0; i < 16; i++) words[16 + k] = words[16 + k] | f->index[16 * k + i] >> 8 << 2 * i;
    }
    grid_pack_nibbles(f->s, 16, words + 18);
    prepend_words(words, 20, f->d, 16);
}

INLINE void pack_iq3_xxs(const grid_fields *f, vi *words) {
    pack_bytes(f->index, 64, words);
    for (int k = 0; k < 8; k++) words[16 + k] = pack_sevens(f->signs + 4 * k, f->s[k]);
    prepend_words(words, 24, f->d, 16);
}

INLINE void pack_iq3_s(const grid_fields *f, vi *words) {
    vi signs[32];
    pack_low_bytes(f->index, 64, words);
    for (int k = 0; k < 2; k++) {
        words[16 + k] = vi_all(0);
        for (int i = 0; i < 32; i++) words[16 + k] = words[16 + k] | f->index[32 * k + i] >> 8 << i;
    }
    for (int k = 0; k < 32; k++) signs[k] = f->signs[2 * k] | f->signs[2 * k + 1] << 4;
    pack_bytes(signs, 32, words + 18);
    grid_pack_nibbles(f->s, 8, words + 26);
    prepend_words(words, 27, f->d, 16);
}

INLINE void pack_iq1_s(const grid_fields *f, vi *words) {
    vi tops[8];
    pack_low_bytes(f->index, 32, words);
    for (int k = 0; k < 8; k++) {
        const vi *index = f->index + 4 * k;
        tops[k] = index[0] >> 8 | index[1] >> 8 << 3 | index[2] >> 8 << 6 | index[3] >> 8 << 9 |
                  f->s[k] << 12 | f->down[k] << 15;
    }
    for (int k = 0; k < 4; k++) words[8 + k] = tops[2 * k] | tops[2 * k + 1] << 16;
    prepend_words(words, 12, f->d, 16);
}

INLINE void pack_iq1_m(const grid_fields *f, vi *words) {
    vi tops[32], four[4];
    pack_low_bytes(f->index, 32, words);
    for (int k = 0; k < 32; k++) tops[k] = f->index[k] >> 8 | f->signs[k] << 3;
    grid_pack_nibbles(tops, 32, words + 8);
    for (int k = 0; k < 4; k++) {
        const vi *s = f->s + 4 * k;
        four[k] = s[0] | s[1] << 3 | s[2] << 6 | s[3] << 9 | (f->d >> 4 * k & 15) << 12;
    }
    words[12] = four[0] | four[1] << 16, words[13] = four[2] | four[3] << 16;
}

/* ---- encoders ---- */
static const codec_search searches_iq2_xxs[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {4, 1.12f, false, false}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, false}, .factors = 64}},
};
#define searches_iq2_xs searches_iq2_xxs
static const codec_search searches_iq2_s[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {3, 1.15f, false, false}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, false}, .factors = 64}},
};
#define searches_iq3_xxs searches_iq2_xxs
#define searches_iq3_s searches_iq2_s
static const codec_search searches_iq1_s[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = {.grid = {1, 1, false, false}, .factors = 16}},
    [EFFORT_DEFAULT] = {[0 ... 1] = {.grid = {2, 1.2f, false, true}, .factors = 32}},
    [EFFORT_BEST] = {[0 ... 1] = {.grid = {8, 1.08f, true, true}, .factors = 64}},
};
#define searches_iq1_m searches_iq1_s

/* The entries of a grid, and what types of a family have in common. */
#define ENTRIES(grid) .least = least_##grid, .index = grid_index_##grid
#define IQ2 .size = 8, .step = 8, .level = {8, 25, 43, 0, 8, 25, 43, 0}, .unit = 0.125f, .top = 31
#define IQ1 .size = 8, .step = 8, .level = {0, -1, 1, 0, 0, -1, 1, 0}, .unit = 1, .top = 15
static const grid_type iq2_xxs_type = {ENTRIES(iq2_xxs), IQ2, .length = 32, .signs = GRID_SIGNS_EVEN,
                                       .estimate = 0.0323f};
static const grid_type iq2_xs_type = {ENTRIES(iq2_xs), IQ2, .length = 16, .signs = GRID_SIGNS_EVEN,
                                      .estimate = 0.0320f};
static const grid_type iq2_s_type = {ENTRIES(iq2_s), IQ2, .length = 16, .signs = GRID_SIGNS_FREE,
                                     .estimate = 0.0322f};
static const grid_type iq3_xxs_type = {ENTRIES(iq3_xxs),
                                       .size = 4,
                                       .step = 8,
                                       .length = 32,
                                       .signs = GRID_SIGNS_EVEN,
                                       .level = {4, 12, 20, 28, 36, 44, 52, 62},
                                       .unit = 0.25f,
                                       .top = 31,
                                       .estimate = 0.0190f};
static const grid_type iq3_s_type = {ENTRIES(iq3_s),
                                     .size = 4,
                                     .step = 4,
                                     .length = 32,
                                     .signs = GRID_SIGNS_FREE,
                                     .level = {1, 3, 5, 7, 9, 11, 13, 15},
                                     .unit = 1,
                                     .top = 31,
                                     .estimate = 0.0795f};
static const grid_type iq1_s_type = {ENTRIES(iq1), IQ1, .length = 32, .signs = GRID_SHIFT_OF_SUB_BLOCK,
                                     .estimate = 0.905f};
static const grid_type iq1_m_type = {ENTRIES(iq1), IQ1, .length = 16, .signs = GRID_SHIFT_OF_ENTRY,
                                     .estimate = 0.925f};

#define NAME iq2_xxs
#define TYPE IQ2_XXS
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq2_xs
#define TYPE IQ2_XS
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq2_s
#define TYPE IQ2_S
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq3_xxs
#define TYPE IQ3_XXS
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq3_s
#define TYPE IQ3_S
#define GROUP 4
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq1_s
#define TYPE IQ1_S
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
#define NAME iq1_m
#define TYPE IQ1_M
#define GROUP 8
#include "codec/simd/grid_encoder_of.inc"
