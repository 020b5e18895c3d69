/* A batch: GQ_LANES blocks side by side, one per lane, and the way from rows to batches and back to bytes. */
#ifndef GQ_BATCH_H
#define GQ_BATCH_H

#include "codec/codec.h"
#include "codec/simd/lanes.h"

/* What the encoders minimise is sum of w (x - x')^2, w = 1 without importance, else the importance of the
 * column. Other objectives were tried; by next-token divergence this one is as good as any (docs/quality.md).
 * weigh() is the place. */
typedef struct batch {
    vf x[256]; /* weights, scaled by a power of two so that the largest of the block is in [1, 2) */
    vf w[256]; /* weights of the objective, largest near 1, none zero; only where weighted */
    vf unit;   /* what 1.0 in x stands for: the power of two */
    bool weighted;
} batch;

/* 2^-k and 2^k for 2^k <= a < 2^(k+1), k kept within -126..126; a >= 0. */
INLINE void power_of_two(vf a, vf *down, vf *up) {
    vi e = bits(a) & 0x7f800000;
    e = picki(lti(e, alli(1 << 23)), alli(1 << 23), e);
    e = picki(lti(alli(253 << 23), e), alli(253 << 23), e);
    *up = from_bits(e);
    *down = from_bits((254 << 23) - e);
}

/* to[i] = element i of all lanes; lane k's elements start at from[k]. n is a multiple of 16. */
INLINE void gather_lanes(const float *const from[L], int n, vf *to) {
    for (int i = 0; i < n; i += L) {
        for (int k = 0; k < L; k++) to[i + k] = load(from[k] + i);
        transpose(to + i);
    }
}

/* Weights of the objective from importance values in w. */
INLINE void weigh(batch *b, int n) {
    vf top = all(0), down, up;
    for (int i = 0; i < n; i++) top = larger(b->w[i], top);
    power_of_two(top, &down, &up);
    /* Dead columns (zero, or so small that it underflows) get a trace of importance: their codes stay
     * sensible and no sum is zero. A block of nothing but dead columns gets uniform importance. */
    vm dead = le(top, all(0));
    for (int i = 0; i < n; i++) b->w[i] = pick(dead, all(1.0f), b->w[i] * down) + 0x1p-20f;
}

/* Fill the batch with blocks first .. first + L - 1 of n (the last one repeated behind the end). Returns how
 * many there are. */
INLINE int load_batch(batch *b, const float *x, size_t first, size_t n, int elements, size_t per_row,
                      const codec_importance *importance) {
    const float *rows[L], *columns[L];
    const float *column = importance ? importance->column : NULL;
    b->weighted = column != NULL;
    size_t place = first % per_row;
    for (int k = 0; k < L; k++) {
        size_t i = first + (size_t)k < n ? first + (size_t)k : n - 1;
        rows[k] = x + i * (size_t)elements;
        columns[k] = column ? column + place * (size_t)elements : NULL;
        if (i + 1 < n && ++place == per_row) place = 0;
    }
    gather_lanes(rows, elements, b->x);
    vf top = all(0), down;
    for (int i = 0; i < elements; i++) top = larger(magnitude(b->x[i]), top);
    power_of_two(top, &down, &b->unit);
    for (int i = 0; i < elements; i++) b->x[i] = b->x[i] * down;
    if (b->weighted) {
        gather_lanes(columns, elements, b->w);
        weigh(b, elements);
    }
    return n - first < L ? (int)(n - first) : L;
}

/* A number in the batch's unit as the file will hold it: rounded to binary16. */
INLINE vf as_half(const batch *b, vf d) {
    vf down, up;
    power_of_two(b->unit, &down, &up);
    return half_round(d * b->unit) * down;
}
/* A scale, too, but one that is not zero stays at least the smallest binary16, so that tiny weights can still
 * be held by small codes and packed scales. */
INLINE vf as_stored(const batch *b, vf d) {
    vf down, up, stored = as_half(b, d);
    power_of_two(b->unit, &down, &up);
    return pick(both(lt(all(0), d), le(stored, all(0))), 0x1p-24f * down, stored);
}
INLINE vi stored_bits(const batch *b, vf d) { return half_bits(d * b->unit); }

/* 1 / a, or 0 where a is not positive. */
INLINE vf inverse(vf a) {
    vm positive = lt(all(0), a);
    return pick(positive, 1.0f / pick(positive, a, all(1)), all(0));
}

/* By how much to multiply the factors of a block whose decoded values y project on x as xy = sum w x y, xx =
 * sum w x^2: a least-squares code shrinks its block by 1 - e^2, in the same direction in every layer, and
 * that harms more than the little error that undoing it costs. Bounded, for blocks whose factors are too
 * small for binary16. */
INLINE vf gain_kept(vf xx, vf xy) {
    vf gain = xx * inverse(xy);
    return pick(lt(all(0), gain), clamp(gain, all(0.75f), all(1.5f)), all(1));
}

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

/* Words in lanes to bytes in memory: lane k's block starts at out + k * bytes. */
INLINE void store_blocks(const vi *words, int n_words, uint8_t *out, size_t bytes, int lanes) {
    enum { MOST = 64 };
    uint8_t flat[L][4 * MOST];
    for (int i = 0; i < n_words; i += L) {
        vf t[L];
        for (int k = 0; k < L; k++) t[k] = i + k < n_words ? from_bits(words[i + k]) : all(0);
        transpose(t);
        for (int k = 0; k < L; k++) memcpy(flat[k] + 4 * i, &t[k], sizeof t[k]);
    }
    for (int k = 0; k < lanes; k++) memcpy(out + (size_t)k * bytes, flat[k], bytes);
}

/* Shift `count` words up by `width` bits and put `head` below them: for blocks that start with 1 or 2 bytes.
 */
INLINE void prepend(vi *words, int count, vi head, int width) {
    vu carry = (vu)head;
    for (int i = 0; i < count; i++) {
        vu w = (vu)words[i];
        words[i] = (vi)(w << width | carry);
        carry = w >> (32 - width);
    }
    words[count] = (vi)carry;
}

/* Binary16 holds the factors of tiny weights badly or not at all. Where what the decoder makes of a block is
 * then farther from its weights than zeros are, it becomes zeros, which zero bytes are in every type. */
static __attribute__((unused)) void keep_or_zero(const batch *b, int elements, size_t bytes,
                                                 codec_decode *decode, uint8_t *out, int lanes) {
    for (int k = 0; k < lanes; k++, out += bytes) {
        float y[256];
        double beyond_zeros = 0; /* sum w ((y - x)^2 - x^2) */
        /* Q6_K's factor is the smallest beside its weights: 1 / 4096 of them. */
        if (b->unit[k] > 0x1p-10f) continue;
        decode(out, y, (size_t)elements);
        for (int i = 0; i < elements; i++) {
            double x = (double)b->x[i][k] * (double)b->unit[k], w = b->weighted ? (double)b->w[i][k] : 1;
            beyond_zeros += w * (double)y[i] * ((double)y[i] - 2 * x);
        }
        if (beyond_zeros > 0) memset(out, 0, bytes);
    }
}

/* An encoder: for every batch of blocks of so many elements and bytes, `call` with the batch b, the number of
 * blocks in it (lanes), out and how in scope. */
#define ENCODER(name, elements, bytes, call) \
    void LEVEL(encode_##name)(const float *x, uint8_t *out, size_t rows, size_t cols, \
                              const codec_importance *importance, codec_effort how) { \
        size_t n = rows * cols / (elements); \
        batch b; \
        (void)how; \
        for (size_t i = 0; i < n; i += L, out += (size_t)(bytes)*L) { \
            int lanes = load_batch(&b, x, i, n, elements, cols / (elements), importance); \
            call; \
            keep_or_zero(&b, elements, bytes, LEVEL(decode_##name), out, lanes); \
        } \
    }

#endif
