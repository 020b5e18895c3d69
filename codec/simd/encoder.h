/* An encoder: what a type brings, and what all have in common. */
#pragma once

#include "codec/codec.h"
#include "codec/simd/kernels.h"
#include "codec/simd/lanes.h"

/* A batch: the same block of columns of GQ_LANES rows, a row per lane; and what all searches make of it. */

/* The encoders minimize the sum of w (x - x')^2, where w is the importance of the column, 1 without an
 * imatrix. Other objectives were tried; by KL divergence of the next token this one is as good as any
 * (bench/results/small-models.md). batch_weigh() is the place. */
typedef struct batch {
    vf x[256];         /* weights, scaled by a power of two so that the largest of the block is in [1, 2) */
    vf unit, per_unit; /* the power of two that 1.0 in x stands for, and its inverse */
    bool weighted;
    float w[256]; /* weights of the objective, the same in all lanes, largest near 1, none zero; only where
                     weighted */
} batch;

/* 2^-k and 2^k for 2^k <= a < 2^(k+1), k kept within -126..126; a >= 0. */
INLINE void vf_power_of_two(vf a, vf *down, vf *up) {
    vi e = vf_bits(a) & 0x7f800000;
    e = vi_pick(vi_less(e, vi_all(1 << 23)), vi_all(1 << 23), e);
    e = vi_pick(vi_less(vi_all(253 << 23), e), vi_all(253 << 23), e);
    *up = vf_from_bits(e);
    *down = vf_from_bits((254 << 23) - e);
}

/* Weights of the objective, w, from the importance of n columns (a multiple of 16). */
INLINE void batch_weigh(float *w, const float *column, int n) {
    vf top = vf_all(0), down, up;
    for (int i = 0; i < n; i += L) top = vf_larger(vf_load(column + i), top);
    for (int i = 1; i < L; i++) top[0] = top[i] > top[0] ? top[i] : top[0];
    top = vf_all(top[0]);
    vf_power_of_two(top, &down, &up);
    /* Dead columns (zero, or so small that it underflows) get a trace of importance: their codes stay
     * sensible and no sum is zero. A block of nothing but dead columns gets uniform importance. */
    vm dead = vf_at_most(top, vf_all(0));
    for (int i = 0; i < n; i += L)
        vf_store(w + i, vf_pick(dead, vf_all(1.0f), vf_load(column + i) * down) + 0x1p-20f);
}

/* Begin a batch whose n columns are in b->x as they are. importance: of these columns, or NULL. */
INLINE void batch_start(batch *b, const float *importance, int n) {
    vf low, high;
    vf_extremes(b->x, n, &low, &high);
    vf top = vf_larger(vf_magnitude(low), vf_magnitude(high));
    vf_power_of_two(top, &b->per_unit, &b->unit);
    for (int i = 0; i < n; i++) b->x[i] = b->x[i] * b->per_unit;
    b->weighted = importance != NULL;
    if (importance) batch_weigh(b->w, importance, n);
}

/* A number in the batch's unit as the file will hold it: rounded to binary16. */
INLINE vf batch_half(const batch *b, vf d) { return half_round(d * b->unit) * b->per_unit; }
/* A scale, too, but one that is not zero stays at least the smallest binary16, so that tiny weights can still
 * be held by small codes and packed scales. */
INLINE vf batch_stored(const batch *b, vf d) {
    vf stored = batch_half(b, d);
    return vf_pick(vm_both(vf_less(vf_all(0), d), vf_at_most(stored, vf_all(0))), 0x1p-24f * b->per_unit,
                   stored);
}

/* 1 / a, or 0 where a is not positive. */
INLINE vf vf_inverse(vf a) {
    vm positive = vf_less(vf_all(0), a);
    return vf_pick(positive, 1.0f / vf_pick(positive, a, vf_all(1)), vf_all(0));
}
/* 1 / a for a of either sign, 0 for 0. */
INLINE vf vf_signed_inverse(vf a) { return vf_pick(vf_less(a, vf_all(0)), -vf_inverse(-a), vf_inverse(a)); }

/* Factors of a whole block, fixed once its scales are chosen. */
typedef struct factors {
    vf unit, per_unit; /* the batch's */
    vf d[2];           /* factors that the file stores, in this unit, before the gain; [1]: of minimums */
    bool canonical;    /* Q8_0: halves are rounded away from zero */
} factors;

/* The factors of a sub-block: its packed scale and minimum, and the values that codes are chosen with. */
typedef struct sub_scales {
    vf sc, mn;
    vf scale, inv;  /* in the unit: what a code is multiplied with, and its inverse */
    vf min, offset; /* subtracted from the product, and the same in codes */
} sub_scales;

/* A type as the driver sees it: what columnwise_of.inc makes of its batch functions. */
typedef struct encoder {
    size_t elements, bytes; /* of a block */
    codec_decode *decode;
    const codec_search (*searches)[2]; /* by effort, then without and with importance */
    /* Encode a batch whose first `rows` lanes are stored, `stride` bytes apart. */
    void (*encode_batch)(const batch *b, const codec_search *search, uint8_t *out, size_t stride,
                         size_t rows);
} encoder;

/* The one driver: batches of rows, and for each the blocks along its columns. */
void LEVEL(encode_rows)(const encoder *e, const float *x, uint8_t *out, size_t rows, size_t cols,
                        const float *importance, const encode_settings *settings);

#define UNUSED __attribute__((unused))

/* Sums for a gain: of weights x and of what the decoder returns, y, with themselves and with each other. */
typedef struct projection {
    vf xx, xy, yy;
} projection;
INLINE void projection_add(projection *p, vf x, vf y, bool weighted, float w) {
    vf wx = weighted ? w * x : x, wy = weighted ? w * y : y;
    p->xx = p->xx + wx * x, p->xy = p->xy + wx * y, p->yy = p->yy + wy * y;
}

/* By how much to multiply the factors of a block whose decoded values y project on x as xy = sum w x y, xx =
 * sum w x^2: a least-squares code shrinks its block by 1 - e^2, in the same direction in every layer, and
 * that costs more KL divergence than the little error of undoing it. Bounded, for blocks whose factors are
 * too small for binary16. */
INLINE vf whole_gain(const factors *f UNUSED, bool weighted UNUSED, const projection p) {
    vf gain = p.xx * vf_inverse(p.xy);
    return vf_pick(vf_less(vf_all(0), gain), vf_clamp(gain, vf_all(0.75f), vf_all(1.5f)), vf_all(1));
}
INLINE vf no_gain(const factors *f UNUSED, bool weighted UNUSED, const projection p UNUSED) {
    return vf_all(1);
}

/* ---- what encoder_of.inc asks of a type ----
 * The search for scales: fills f->d and subs. The code nearest to x, which is returned as it is decoded. A block's
 * bytes as words; d: bits of both factors. A type need not use all that it gets. */
#define CHOOSE(name) \
    INLINE void choose_##name(const batch *b, const codec_search *search UNUSED, bool weighted, \
                              factors *f UNUSED, sub_scales *subs)
#define ROUND(name) INLINE vf round_##name(const factors *f UNUSED, const sub_scales *s, vf x, vi *code)
#define PACK(name) \
    INLINE void pack_##name(const vi d[2] UNUSED, const sub_scales *subs UNUSED, const vi *codes, vi *words)

/* ---- packing ---- */
enum { MOST_WORDS = 64 }; /* of a block */

/* Bytes (0..255, one per lane) to little-endian words; n is a multiple of 4. */
INLINE void pack_bytes(const vi *bytes, int n, vi *words) {
    for (int i = 0; i < n; i += 4)
        words[i / 4] = bytes[i] | bytes[i + 1] << 8 | bytes[i + 2] << 16 | bytes[i + 3] << 24;
}

/* The 2-bit codes of Q2_K, Q3_K (its low bits) and TQ2_0: elements l, l + 32, l + 64, l + 96 of a half share
 * a byte. */
INLINE void pack_pairs_of_bits(const vi codes[256], vi words[16]) {
    for (int h = 0; h < 2; h++) {
        const vi *c = codes + 128 * h;
        vi bytes[32];
        for (int l = 0; l < 32; l++)
            bytes[l] = (c[l] & 3) | (c[l + 32] & 3) << 2 | (c[l + 64] & 3) << 4 | (c[l + 96] & 3) << 6;
        pack_bytes(bytes, 32, words + 8 * h);
    }
}

/* Shift `count` words up by `width` bits and put `low` below them: for blocks that start with 1 or 2 bytes. */
INLINE void prepend_words(vi *words, int count, vi low, int width) {
    vu carry = (vu)low;
    for (int i = 0; i < count; i++) {
        vu w = (vu)words[i];
        words[i] = (vi)(w << width | carry);
        carry = w >> (32 - width);
    }
    words[count] = (vi)carry;
}

/* Words in lanes to bytes in memory: lane k's block starts at out + k * stride. */
INLINE void store_blocks(const vi *words, int n_words, size_t bytes, uint8_t *out, size_t stride,
                         size_t rows) {
    uint8_t flat[L][4 * MOST_WORDS];
    for (int i = 0; i < n_words; i += L) {
        vf t[L];
        for (int k = 0; k < L; k++) t[k] = i + k < n_words ? vf_from_bits(words[i + k]) : vf_all(0);
        vf_transpose(t);
        for (int k = 0; k < L; k++) memcpy(flat[k] + 4 * i, &t[k], sizeof t[k]);
    }
    for (size_t k = 0; k < rows; k++) memcpy(out + k * stride, flat[k], bytes);
}
