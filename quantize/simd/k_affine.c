/* Q2_K, Q4_K, Q5_K: sub-blocks with a scale and a minimum, x' = (d sc) q - (dmin mn).
 *
 * The search, each lane one super-block:
 *   1. per sub-block, several placings of the code range over the block's range; for each, codes and then the
 * scale and minimum that are least squares for these codes; the best is kept;
 *   2. d and dmin: a few larger than needed for the largest scale and minimum, judged by what the packed
 * scales and minimums make of the best codes (their quadratic form: no pass over the data);
 *   3. per sub-block, moves of the code range around what the decoder would return, each judged after
 * packing;
 *   4. d and dmin by least squares over the super-block, final codes, gain kept.
 */
#include "quantize/simd/affine.h"
#include "quantize/simd/kernels.h"

enum { MOST_SUBS = 16 };

typedef struct shape {
    int subs;           /* sub-blocks of a super-block */
    float levels;       /* largest packed scale */
    span span;          /* of a sub-block */
    int8_t near[24][2]; /* step 3: packed scale and minimum relative to the settled ones */
} shape;

typedef struct effort {
    int starts, polish, factors, near; /* tries of steps 1 (both), 2, 3 */
} effort;

typedef struct sub_block {
    affine fit;
    vf sc, mn; /* packed */
} sub_block;

/* Error for scale a and minimum m, without sum w x^2. */
INLINE vf cost(const affine *s, const form *f, vf a, vf m) {
    return a * (a * f->qq - 2.0f * f->qx) + m * (m * s->sum_w + 2.0f * (s->sum_wx - a * f->q));
}

/* The best packed scale next to a, with the best packed minimum for each, where that beats `best`. */
INLINE vf settle(const affine *s, const form *f, vf a, const vf d[2], const vf inv[2], float levels, vf best,
                 vf *sc, vf *mn) {
    vf start = nearest(a * inv[0]), per_min = inv[1] / s->sum_w;
    for (int k = -1; k <= 1; k++) {
        vf c = clamp(start + (float)k, all(0), all(levels)), scale = c * d[0];
        vf n = clamp(nearest((scale * f->q - s->sum_wx) * per_min), all(0), all(levels));
        vf e = cost(s, f, scale, n * d[1]);
        vm better = lt(e, best);
        best = pick(better, e, best), *sc = pick(better, c, *sc), *mn = pick(better, n, *mn);
    }
    return best;
}

/* Least squares for d and dmin over all sub-blocks. */
INLINE void refit_factors(const batch *b, const sub_block *subs, const shape sh, vf d[2]) {
    vf a11 = all(0), a12 = all(0), a22 = all(0), b1 = all(0), b2 = all(0);
    for (int k = 0; k < sh.subs; k++) {
        const affine *s = &subs[k].fit;
        vf sc = subs[k].sc, mn = subs[k].mn;
        a11 = a11 + sc * sc * s->f.qq, a22 = a22 + mn * mn * s->sum_w, a12 = a12 - sc * mn * s->f.q;
        b1 = b1 + sc * s->f.qx, b2 = b2 - mn * s->sum_wx;
    }
    vf det = a11 * a22 - a12 * a12;
    vm two = lt(a11 * a22 * 1e-6f, det);
    vf safe = pick(two, det, all(1));
    vf scale = pick(two, (b1 * a22 - b2 * a12) / safe, b1 * inverse(a11));
    vf min = pick(two, (a11 * b2 - a12 * b1) / safe, d[1]);
    vm sane = both(le(all(0), scale), le(all(0), min));
    d[0] = as_stored(b, pick(sane, scale, d[0])), d[1] = as_stored(b, pick(sane, min, d[1]));
}

/* Total error with the best packed scales for the codes so far, without sum w x^2. */
INLINE vf settle_all(sub_block *subs, const shape sh, const vf d[2]) {
    const vf inv[2] = {inverse(d[0]), inverse(d[1])};
    vf e = all(0);
    for (int i = 0; i < sh.subs; i++) {
        const affine *s = &subs[i].fit;
        e = e + settle(s, &s->f, s->a, d, inv, sh.levels, all(1e30f), &subs[i].sc, &subs[i].mn);
    }
    return e;
}

/* Step 2. */
INLINE void choose_factors(const batch *b, sub_block *subs, const shape sh, int tries, vf d[2]) {
    vf top[2] = {all(0), all(0)};
    for (int k = 0; k < sh.subs; k++)
        top[0] = larger(subs[k].fit.a, top[0]), top[1] = larger(subs[k].fit.m, top[1]);
    vf best = all(1e30f);
    d[0] = d[1] = all(0);
    for (int k = 0; k < tries; k++) {
        static const float by[][2] = {{0, 0}, {1, 1}, {1, 2}, {2, 1}, {2, 2}, {0, 1}, {1, 0}, {0, 2},
                                      {2, 0}, {3, 1}, {1, 3}, {3, 3}, {0, 3}, {3, 0}, {2, 3}, {3, 2}};
        vf try[2];
        for (int j = 0; j < 2; j++) try[j] = as_stored(b, top[j] * ((1.0f + 0.02f * by[k][j]) / sh.levels));
        for (int r = 0;; r++) {
            vf e = settle_all(subs, sh, try);
            vm better = lt(e, best);
            best = pick(better, e, best);
            for (int j = 0; j < 2; j++) d[j] = pick(better, try[j], d[j]);
            if (r == 1) break;
            refit_factors(b, subs, sh, try);
        }
    }
}

/* sum w (x - x')^2 of the codes for a scale and a minimum, in squares of the scale. */
INLINE vf miss(const affine *s, const span sp, bool weighted, vf inv, vf offset) {
    vf sum = all(0);
    for (int i = 0; i < sp.length; i++) {
        vf t = s->x[i] * inv + offset, r = t - clamp(nearest(t), all(0), all(sp.top));
        sum = sum + (weighted ? s->w[i] * r : r) * r;
    }
    return sum;
}

/* Step 3. */
INLINE void pack_scales(sub_block *sub, const shape sh, int tries, bool weighted, const vf d[2]) {
    affine *s = &sub->fit;
    const vf inv[2] = {inverse(d[0]), inverse(d[1])};
    vf sc = all(0), mn = all(0), best = all(INFINITY);
    settle(s, &s->f, s->a, d, inv, sh.levels, best, &sc, &mn);
    sub->sc = sc, sub->mn = mn;
    for (int k = 0; k < tries; k++) {
        vf c = clamp(sc + (float)sh.near[k][0], all(0), all(sh.levels));
        vf n = clamp(mn + (float)sh.near[k][1], all(0), all(sh.levels));
        vf scale = c * d[0], per = inverse(scale);
        vf e = miss(s, sh.span, weighted, per, n * d[1] * per) * (scale * scale);
        /* A zero scale has no steps to measure by. */
        vm better = both(lt(e, best), lt(all(0), scale));
        best = pick(better, e, best), sub->sc = pick(better, c, sub->sc), sub->mn = pick(better, n, sub->mn);
    }
    vf per = inverse(sub->sc * d[0]);
    s->f = take(s, sh.span, weighted, per, sub->mn * d[1] * per);
}

/* Step 4: codes for what the decoder returns, and the factors with the gain kept. */
INLINE void finish(const sub_block *subs, const shape sh, bool weighted, vf d[2], vi codes[256]) {
    vf xx = all(0), xy = all(0);
    for (int k = 0; k < sh.subs; k++) {
        const affine *s = &subs[k].fit;
        vf scale = d[0] * subs[k].sc, min = d[1] * subs[k].mn, inv = inverse(scale), offset = min * inv;
        for (int i = 0; i < sh.span.length; i++) {
            vf q = clamp(nearest(s->x[i] * inv + offset), all(0), all(sh.span.top));
            vf wx = weighted ? s->w[i] * s->x[i] : s->x[i];
            xx = xx + wx * s->x[i], xy = xy + wx * (q * scale - min);
            codes[k * sh.span.length + i] = nearest_int(q);
        }
    }
    vf gain = gain_kept(xx, xy);
    d[0] = d[0] * gain, d[1] = d[1] * gain;
}

INLINE void search(const batch *b, const shape sh, const effort ef, bool weighted, sub_block *subs, vf d[2],
                   vi codes[256]) {
    for (int k = 0; k < sh.subs; k++) {
        affine *s = &subs[k].fit;
        s->x = b->x + k * sh.span.length, s->w = b->w + k * sh.span.length;
        start_affine(s, sh.span, ef.starts, ef.polish, weighted);
    }
    choose_factors(b, subs, sh, ef.factors, d);
    for (int k = 0; k < sh.subs; k++) pack_scales(&subs[k], sh, ef.near, weighted, d);
    refit_factors(b, subs, sh, d);
    finish(subs, sh, weighted, d, codes);
}

/* ---- packing ---- */
/* The twelve bytes of eight 6-bit scales and minimums, as three words. */
INLINE void pack_pairs(const sub_block *subs, vi words[3]) {
    vi bytes[12];
    for (int k = 0; k < 4; k++) {
        vi sc = nearest_int(subs[k].sc), mn = nearest_int(subs[k].mn);
        vi sc4 = nearest_int(subs[k + 4].sc), mn4 = nearest_int(subs[k + 4].mn);
        bytes[k] = sc | (sc4 >> 4) << 6;
        bytes[k + 4] = mn | (mn4 >> 4) << 6;
        bytes[k + 8] = (sc4 & 15) | (mn4 & 15) << 4;
    }
    pack_bytes(bytes, 12, words);
}

/* Low four bits: elements l and l + 32 of each group of 64 share a byte. */
INLINE void pack_nibbles(const vi codes[256], vi words[32]) {
    for (int g = 0; g < 4; g++) {
        vi bytes[32];
        for (int l = 0; l < 32; l++) bytes[l] = (codes[64 * g + l] & 15) | (codes[64 * g + l + 32] & 15) << 4;
        pack_bytes(bytes, 32, words + 8 * g);
    }
}

INLINE void pack_q4_k(const batch *b, const sub_block *subs, const vf d[2], const vi codes[256],
                      vi words[64]) {
    words[0] = stored_bits(b, d[0]) | stored_bits(b, d[1]) << 16;
    pack_pairs(subs, words + 1);
    pack_nibbles(codes, words + 4);
}

INLINE void pack_q5_k(const batch *b, const sub_block *subs, const vf d[2], const vi codes[256],
                      vi words[64]) {
    words[0] = stored_bits(b, d[0]) | stored_bits(b, d[1]) << 16;
    pack_pairs(subs, words + 1);
    vi bytes[32];
    for (int l = 0; l < 32; l++) {
        bytes[l] = alli(0);
        for (int k = 0; k < 8; k++) bytes[l] = bytes[l] | (codes[32 * k + l] >> 4) << k;
    }
    pack_bytes(bytes, 32, words + 4);
    pack_nibbles(codes, words + 12);
}

INLINE void pack_q2_k(const batch *b, const sub_block *subs, const vf d[2], const vi codes[256],
                      vi words[64]) {
    vi bytes[16];
    for (int k = 0; k < 16; k++) bytes[k] = nearest_int(subs[k].sc) | nearest_int(subs[k].mn) << 4;
    pack_bytes(bytes, 16, words);
    pack_pairs_of_bits(codes, words + 4);
    words[20] = stored_bits(b, d[0]) | stored_bits(b, d[1]) << 16;
}

/* ---- encoders ---- */
/* Neighbours in the order in which each adds most to those before it, on normal weights with and without
 * importance. */
static const shape q2_shape = {
    16, 15, {16, 3, false, starts_2_bits, 0.5f}, {{0, 0},   {-1, 0},  {-1, -2}, {-1, -1}, {0, -1},
                                                  {0, 1},   {1, 1},   {-2, 0},  {1, 0},   {-2, -4},
                                                  {-2, -3}, {-3, 0},  {-3, -5}, {-2, -1}, {-1, 1},
                                                  {-2, 3},  {-2, -2}, {-2, 1},  {-1, -3}, {1, 2},
                                                  {-1, -4}, {0, 2},   {-4, 1},  {-3, -4}}};
static const shape q4_shape = {
    8, 63, {32, 15, false, starts_4_bits, 0.6f}, {{0, 0},  {-1, -1}, {1, 1},   {0, -1},  {-1, 0},  {1, 2},
                                                  {1, 0},  {-1, -2}, {0, 1},   {-2, -2}, {-2, -1}, {2, 1},
                                                  {-4, 0}, {-2, -3}, {4, 5},   {4, 0},   {2, 2},   {-4, -2},
                                                  {4, 2},  {-2, 0},  {-4, -5}, {-3, 0},  {2, 3},   {-1, -3}}};
static const shape q5_shape = {
    8, 63, {32, 31, false, starts_5_bits, 0.6f}, {{0, 0}, {1, 1},  {-1, -1}, {2, 1},  {2, 0},  {3, 3},
                                                  {3, 4}, {4, 0},  {1, 0},   {0, -3}, {0, 1},  {3, 2},
                                                  {4, 1}, {2, 2},  {0, 3},   {0, -1}, {-1, 0}, {4, 2},
                                                  {1, 2}, {-2, 0}, {3, 1},   {0, -2}, {4, -1}, {1, 3}}};
/* By effort, then without and with importance: with it the incumbents are slower and the search pays more. */
static const effort q2_efforts[3][2] = {
    {{5, 0, 1, 1}, {5, 0, 1, 1}}, {{5, 1, 5, 12}, {9, 1, 9, 18}}, {{16, 2, 16, 24}, {16, 2, 16, 24}}};
static const effort q4_efforts[3][2] = {
    {{5, 0, 1, 1}, {5, 0, 1, 1}}, {{8, 2, 9, 12}, {16, 2, 16, 12}}, {{20, 2, 16, 24}, {20, 2, 16, 24}}};
static const effort q5_efforts[3][2] = {
    {{5, 0, 1, 1}, {5, 0, 1, 1}}, {{12, 2, 9, 10}, {20, 2, 16, 14}}, {{20, 2, 16, 24}, {20, 2, 16, 24}}};

#define BATCH(name, n_bytes, n_words, sh, efforts) \
    static void name##_batch(const batch *b, codec_effort how, uint8_t *out, int lanes) { \
        sub_block subs[MOST_SUBS]; \
        vf d[2]; \
        vi codes[256], words[64]; \
        if (b->weighted) \
            search(b, sh, efforts[how][1], true, subs, d, codes); \
        else \
            search(b, sh, efforts[how][0], false, subs, d, codes); \
        pack_##name(b, subs, d, codes, words); \
        store_blocks(words, n_words, out, n_bytes, lanes); \
    } \
    ENCODER(name, 256, n_bytes, name##_batch(&b, how, out, lanes))

BATCH(q2_k, 84, 21, q2_shape, q2_efforts)
BATCH(q4_k, 144, 36, q4_shape, q4_efforts)
BATCH(q5_k, 176, 44, q5_shape, q5_efforts)
