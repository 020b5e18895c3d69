/* The 32-element types with binary16 factors of their own: Q4_0, Q5_0, Q8_0, IQ4_NL (a scale), Q4_1, Q5_1 (a
 * scale and a minimum that is added). Each lane one block.
 *
 * A scale alone is searched by codec/simd/scaled_copy.h (IQ4_NL: scaled.h): several scales are tried, each
 * with the codes that are nearest, and the least-squares scale of the best codes is stored. A scale and a
 * minimum are searched by codec/simd/affine.h in the same way; here the ends of the code range are then moved
 * a little. At the effort `fast` Q8_0 is not searched: it gets the bytes that other programs write. */
#include "codec/simd/affine.h"
#include "codec/simd/scaled_copy.h"

/* The search of codec/simd/affine.h for blocks of 32 with a scale and a minimum of their own, each lane one.
 *
 * Codes count from the middle one here, -2^(bits-1) .. 2^(bits-1) - 1, and weights from the middle of their
 * range: additions that stop at the ends of 16 bits keep codes within theirs. Which codes are best follows
 * from what their least-squares scale and minimum explain. Neither is computed before it is needed. */

enum { AFFINE_COPY_ELEMENTS = 32 };

/* y = (x - middle) / half, -1..1 in steps of about 2^-15; importance as whole numbers, of which the largest
 * times a code is 16 bits. */
typedef struct affine_copy {
    vp y[AFFINE_COPY_ELEMENTS / 2], w[AFFINE_COPY_ELEMENTS / 2];
    vf middle, half;
    vf sum_w, sum_wy, per_w;
    /* The best codes so far: their sum, with importance. Their least-squares scale is across / det, which
     * explains across^2 / det of the weights' power. */
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

enum { BLOCK_ELEMENTS = 32 };

/* The error of a block with a scale and a minimum that is added. */
INLINE vf pair_error(const batch *b, float top, bool weighted, const vf d[2]) {
    vf e = vf_all(0), inv = vf_inverse(d[0]);
    for (int i = 0; i < BLOCK_ELEMENTS; i++) {
        vf q = vf_clamp(vf_nearest((b->x[i] - d[1]) * inv), vf_all(0), vf_all(top));
        e = e + qat_grid_error(b->x[i], q * d[0] + d[1], weighted, b->w[i]);
    }
    return e;
}

/* Takes the pair of a quantization grid that the weights lie on where it is better than the search's: code 0
 * stands for the middle multiple or for the lowest one that occurs. */
INLINE void pair_prefer_qat_grid(const batch *b, int bits, bool weighted, vf d[2]) {
    const float top = (float)((1 << bits) - 1);
    vm on = vf_less(vf_all(-1), vf_all(0));
    vf step = qat_grid_step(b->x, BLOCK_ELEMENTS, qat_grid_most(-top, 0), QAT_GRID_SLACK, &on), low, high;
    vm found = vf_less(vf_all(0), step);
    if (!vm_any(found)) return;
    vf least = pair_error(b, top, weighted, d);
    vf_extremes(b->x, BLOCK_ELEMENTS, &low, &high);
    for (int k = 0; k < 2; k++) {
        vf zero = k ? vf_nearest(-low * vf_inverse(step)) : vf_all(0.5f * (top + 1));
        vf try[2] = {batch_stored(b, step), batch_half(b, -zero * step)}, e = pair_error(b, top, weighted, try);
        vm better = vm_both(found, vf_less(e, least));
        least = vf_pick(better, e, least);
        for (int j = 0; j < 2; j++) d[j] = vf_pick(better, try[j], d[j]);
    }
}

/* Chooses scale and minimum of a block. The minimum is added, so sub_scales holds its negative. */
INLINE void choose_pair(const batch *b, int bits, const codec_search *search, bool weighted, factors *f,
                        sub_scales *out) {
    vf scale, minimum;
    affine_copy_choose(b, bits, search, weighted, &scale, &minimum);
    f->d[0] = batch_stored(b, scale), f->d[1] = batch_half(b, minimum);
    pair_prefer_qat_grid(b, bits, weighted, f->d);
    out->scale = f->d[0], out->inv = vf_inverse(f->d[0]), out->min = -f->d[1];
}

INLINE vf round_pair(const sub_scales *s, int bits, vf x, vi *code) {
    vf q = vf_clamp(vf_nearest((x + s->min) * s->inv), vf_all(0), vf_all((float)((1 << bits) - 1)));
    *code = vf_nearest_int(q);
    return q * s->scale - s->min;
}

/* ---- packing ---- */
INLINE void legacy_pack_nibbles(const vi codes[BLOCK_ELEMENTS], vi words[4]) {
    vi bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = (codes[j] & 15) | (codes[j + 16] & 15) << 4;
    pack_bytes(bytes, 16, words);
}
INLINE vi fifth_bits(const vi codes[BLOCK_ELEMENTS]) {
    vi bits = vi_all(0);
    for (int j = 0; j < BLOCK_ELEMENTS; j++) bits = bits | (codes[j] >> 4) << j;
    return bits;
}

PACK(q4_0) {
    legacy_pack_nibbles(codes, words);
    prepend_words(words, 4, d[0], 16);
}
#define pack_iq4_nl pack_q4_0
PACK(q5_0) {
    words[0] = fifth_bits(codes);
    legacy_pack_nibbles(codes, words + 1);
    prepend_words(words, 5, d[0], 16);
}
PACK(q8_0) {
    vi bytes[BLOCK_ELEMENTS];
    /* Codes count from the lowest value, -127. */
    for (int j = 0; j < BLOCK_ELEMENTS; j++) bytes[j] = (codes[j] - 127) & 255;
    pack_bytes(bytes, BLOCK_ELEMENTS, words);
    prepend_words(words, 8, d[0], 16);
}
PACK(q4_1) {
    words[0] = d[0] | d[1] << 16;
    legacy_pack_nibbles(codes, words + 1);
}
PACK(q5_1) {
    words[0] = d[0] | d[1] << 16, words[1] = fifth_bits(codes);
    legacy_pack_nibbles(codes, words + 2);
}

/* ---- the bytes everyone else writes for Q8_0 ----
 * Step = largest / 127, codes from the step before it is rounded to binary16, by its reciprocal, halves away from zero. */
INLINE void choose_canonical(const batch *b, factors *f, sub_scales *s) {
    vf top = vf_all(0);
    for (int i = 0; i < BLOCK_ELEMENTS; i++) top = vf_larger(vf_magnitude(b->x[i]), top);
    /* In the block's own unit the powers of two cancel, unless the step or its reciprocal leaves the normal
     * numbers. */
    vf step = top * b->unit / 127.0f, inv = vf_pick(vf_less(vf_all(0), step), 1.0f / step, vf_all(0));
    s->inv = vf_pick(vf_less(inv, vf_all(INFINITY)), inv, vf_all(0)) * b->unit;
    s->scale = f->d[0] = half_round(step) * b->per_unit;
}
INLINE vf round_canonical(const sub_scales *s, vf x, vi *code) {
    vf t = x * s->inv, q = vf_nearest(t), off = t - q;
    q = q +
        vf_pick(vf_equal(off, vf_all(0.5f)), vf_pick(vf_less(vf_all(0), t), vf_all(1), vf_all(0)), vf_all(0));
    q = q - vf_pick(vf_equal(off, vf_all(-0.5f)), vf_pick(vf_less(t, vf_all(0)), vf_all(1), vf_all(0)),
                    vf_all(0));
    q = vf_clamp(q, vf_all(-127), vf_all(127));
    *code = vf_nearest_int(q) + 127;
    return q * s->scale;
}

/* ---- encoders ---- */
/* A search for each effort, without importance, then with it: ladders of scales for the lower and the upper end of the
 * codes; moves and their step. */
#define SEARCH(first, step, n, upper_first, upper_step, upper_n, n_moves, by) \
    { .lower = {first, step, n}, .upper = {upper_first, upper_step, upper_n}, .moves = n_moves, .move_step = by }
/* The same of types with a minimum: n placings of so many bits. */
#define SEARCH_PLACINGS(bits, n, n_polish, n_moves, by) \
    { \
        .placings = {placings_##bits##_bits, n}, .placing_step = 0.6f, .polish = n_polish, .moves = n_moves, \
        .move_step = by \
    }
/* clang-format off: a row for each search */
static const codec_search searches_q4_0[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(0, 0, 1, 0, 0, 0, 1, 0)},
    [EFFORT_DEFAULT] =          {SEARCH(-0.7f, 0.35f, 6, -0.7f, 0.5f, 2, 3, 0.015f),
                                 SEARCH(-0.3f, 0.45f, 7, -0.6f, 0.5f, 4, 2, 0.02f)},
    [EFFORT_BEST] =             {SEARCH(-1.5f, 0.15f, 20, -1.2f, 0.15f, 18, 8, 0.01f),
                                 SEARCH(-0.9f, 0.25f, 20, -0.9f, 0.15f, 18, 8, 0.01f)},
};
static const codec_search searches_q5_0[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH(0, 0, 1, 0, 0, 0, 1, 0)},
    [EFFORT_DEFAULT] =          {SEARCH(-0.6f, 0.4f, 5, -0.8f, 0.4f, 3, 3, 0.01f),
                                 SEARCH(-0.6f, 0.6f, 7, -0.8f, 0.6f, 4, 3, 0.01f)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH(-3, 0.2f, 24, -2.4f, 0.2f, 20, 8, 0.005f)},
};
static const codec_search searches_q8_0[3][2] = {
    [EFFORT_FAST] =    {[0 ... 1] = {.canonical = true}},
    [EFFORT_DEFAULT] = {[0 ... 1] = SEARCH(-9.2f, 0.8f, 13, 0, 0, 0, 0, 0)},
    [EFFORT_BEST] =    {[0 ... 1] = SEARCH(-12, 0.2f, 64, 0, 0, 0, 8, 0.0005f)},
};
static const codec_search searches_iq4_nl[3][2] = {
    [EFFORT_FAST] =    {[0 ... 1] = SEARCH(0, 8, 2, 0, 8, 1, 1, 0)},
    [EFFORT_DEFAULT] = {[0 ... 1] = SEARCH(-14, 6, 6, -10, 6, 5, 4, 0.02f)},
    [EFFORT_BEST] =    {[0 ... 1] = SEARCH(-24, 4, 13, -20, 4, 12, 8, 0.01f)},
};
static const codec_search searches_q4_1[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH_PLACINGS(4, 1, 0, 0, 0)},
    [EFFORT_DEFAULT] =          {SEARCH_PLACINGS(4, 8, 1, 4, 0.25f),
                                 SEARCH_PLACINGS(4, 14, 1, 4, 0.25f)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH_PLACINGS(4, 20, 2, 8, 0.2f)},
};
static const codec_search searches_q5_1[3][2] = {
    [EFFORT_FAST] = {[0 ... 1] = SEARCH_PLACINGS(5, 1, 0, 0, 0)},
    [EFFORT_DEFAULT] =          {SEARCH_PLACINGS(5, 12, 0, 4, 0.25f),
                                 SEARCH_PLACINGS(5, 14, 1, 4, 0.25f)},
    [EFFORT_BEST] = {[0 ... 1] = SEARCH_PLACINGS(5, 20, 2, 8, 0.2f)},
};
/* clang-format on */

static const scaled_grid q4_0_grid = {-8, 7, false};
CHOOSE(q4_0) { choose_copied(b, BLOCK_ELEMENTS, 4, q4_0_grid, search, weighted, f, subs); }
ROUND(q4_0) { return round_scaled(q4_0_grid, s, x, code); }
#define NAME q4_0
#define TYPE Q4_0
#include "codec/simd/encoder_of.inc"

static const scaled_grid q5_0_grid = {-16, 15, false};
CHOOSE(q5_0) { choose_copied(b, BLOCK_ELEMENTS, 5, q5_0_grid, search, weighted, f, subs); }
ROUND(q5_0) { return round_scaled(q5_0_grid, s, x, code); }
#define NAME q5_0
#define TYPE Q5_0
#include "codec/simd/encoder_of.inc"

static const scaled_grid iq4_nl_grid = {-127, 113, true};
CHOOSE(iq4_nl) { choose_scaled(b, BLOCK_ELEMENTS, iq4_nl_grid, search, weighted, f, subs); }
ROUND(iq4_nl) { return round_scaled(iq4_nl_grid, s, x, code); }
#define NAME iq4_nl
#define TYPE IQ4_NL
#include "codec/simd/encoder_of.inc"

static const scaled_grid q8_0_grid = {-127, 127, false};
CHOOSE(q8_0) {
    if (search->canonical)
        choose_canonical(b, f, subs);
    else
        choose_copied(b, BLOCK_ELEMENTS, 8, q8_0_grid, search, weighted, f, subs);
}
ROUND(q8_0) { return f->canonical ? round_canonical(s, x, code) : round_scaled(q8_0_grid, s, x, code); }
INLINE vf gain_of_q8_0(const factors *f, bool weighted, const projection p) {
    return f->canonical ? vf_all(1) : whole_gain(f, weighted, p);
}
#define NAME q8_0
#define TYPE Q8_0
#define GAIN gain_of_q8_0
#include "codec/simd/encoder_of.inc"

CHOOSE(q4_1) { choose_pair(b, 4, search, weighted, f, subs); }
ROUND(q4_1) { return round_pair(s, 4, x, code); }
#define NAME q4_1
#define TYPE Q4_1
#include "codec/simd/encoder_of.inc"

CHOOSE(q5_1) { choose_pair(b, 5, search, weighted, f, subs); }
ROUND(q5_1) { return round_pair(s, 5, x, code); }
#define NAME q5_1
#define TYPE Q5_1
#include "codec/simd/encoder_of.inc"
