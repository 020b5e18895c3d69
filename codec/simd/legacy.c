/* The 32-element types with binary16 factors of their own: Q4_0, Q5_0, Q8_0, IQ4_NL (a scale), Q4_1, Q5_1 (a
 * scale and a minimum that is added). Each lane one block. */
#include "codec/simd/affine.h"
#include "codec/simd/kernels.h"
#include "codec/simd/scaled.h"

enum { BLOCK = 32 };

/* ---- a scale ---- */
typedef struct scaled_shape {
    grid grid;
    scale_effort efforts[3];
} scaled_shape;

/* ---- a scale and a minimum ---- */
typedef struct pair_shape {
    span span;
    int starts[3], polish[3], moves[3];
} pair_shape;

INLINE void search_pair(batch *b, const pair_shape sh, codec_effort how, bool weighted, vf *d, vf *m,
                        vi codes[BLOCK]) {
    affine s;
    vf best = start_affine(&s, b->x, b->w, sh.span, sh.starts[how], sh.polish[how], weighted);
    for (int k = 0; k < sh.moves[how]; k++) { /* the code range, moved a little at either end */
        static const float by[8][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
        const float top = top_code(sh.span);
        vf a = s.a * (top / (top + 0.35f * (by[k][0] + by[k][1])));
        form f = take_affine(&s, sh.span, weighted, a, s.m * a * inverse(s.a) - 0.35f * by[k][0] * a);
        keep_codes(&s, sh.span, &f, &best);
    }
    *d = as_stored(b, s.a * s.copy.range), *m = as_half(b, s.copy.low - s.m * s.copy.range);
    vf inv = inverse(*d), xx = all(0), xy = all(0);
    for (int i = 0; i < BLOCK; i++) {
        vf q = clamp(nearest((b->x[i] - *m) * inv), all(0), all(top_code(sh.span)));
        vf wx = weighted ? b->w[i] * b->x[i] : b->x[i];
        codes[i] = nearest_int(q);
        xx = xx + wx * b->x[i], xy = xy + wx * (q * *d + *m);
    }
    vf gain = gain_kept(xx, xy);
    *d = *d * gain, *m = *m * gain;
}

/* ---- packing ---- */
INLINE void pack_nibbles(const vi codes[BLOCK], vi words[4]) {
    vi bytes[16];
    for (int j = 0; j < 16; j++) bytes[j] = (codes[j] & 15) | (codes[j + 16] & 15) << 4;
    pack_bytes(bytes, 16, words);
}
INLINE vi fifth_bits(const vi codes[BLOCK]) {
    vi bits = alli(0);
    for (int j = 0; j < BLOCK; j++) bits = bits | (codes[j] >> 4) << j;
    return bits;
}

INLINE void pack_q4_0(vi d, const vi codes[BLOCK], vi *words) {
    pack_nibbles(codes, words);
    prepend(words, 4, d, 16);
}
#define pack_iq4_nl pack_q4_0
INLINE void pack_q5_0(vi d, const vi codes[BLOCK], vi *words) {
    words[0] = fifth_bits(codes);
    pack_nibbles(codes, words + 1);
    prepend(words, 5, d, 16);
}
INLINE void pack_q8_0(vi d, const vi codes[BLOCK], vi *words) {
    vi bytes[BLOCK];
    /* Codes count from the lowest value, -127. */
    for (int j = 0; j < BLOCK; j++) bytes[j] = (codes[j] - 127) & 255;
    pack_bytes(bytes, BLOCK, words);
    prepend(words, 8, d, 16);
}
INLINE void pack_q4_1(vi dm, const vi codes[BLOCK], vi *words) {
    words[0] = dm;
    pack_nibbles(codes, words + 1);
}
INLINE void pack_q5_1(vi dm, const vi codes[BLOCK], vi *words) {
    words[0] = dm, words[1] = fifth_bits(codes);
    pack_nibbles(codes, words + 2);
}

/* The bytes everyone else writes for Q8_0: step = largest / 127, codes from the step before it is rounded to
 * binary16, by its reciprocal, halves away from zero. */
static void canonical_q8_0(const batch *b, uint8_t *out, int lanes) {
    vf top = all(0);
    vi codes[BLOCK], words[16];
    for (int i = 0; i < BLOCK; i++) top = larger(magnitude(b->x[i]), top);
    /* In the block's own unit the powers of two cancel, unless the step or its reciprocal leaves the normal
     * numbers. */
    vf step = top * b->unit / 127.0f, inv = pick(lt(all(0), step), 1.0f / step, all(0));
    inv = pick(lt(inv, all(INFINITY)), inv, all(0));
    for (int i = 0; i < BLOCK; i++) {
        vf t = b->x[i] * b->unit * inv, q = nearest(t), off = t - q;
        q = q + pick(eq(off, all(0.5f)), pick(lt(all(0), t), all(1), all(0)), all(0));
        q = q - pick(eq(off, all(-0.5f)), pick(lt(t, all(0)), all(1), all(0)), all(0));
        codes[i] = nearest_int(q) + 127;
    }
    pack_q8_0(half_bits(step), codes, words);
    store_blocks(words, 9, out, 34, lanes);
}

/* ---- encoders ---- */
#define SCALED(name, bytes, n_words, shape) \
    static void name##_batch(const batch *b, codec_effort how, uint8_t *out, int lanes) { \
        vi codes[BLOCK], words[16]; \
        vf d = b->weighted ? search_scale(b, BLOCK, shape.grid, shape.efforts[how], true, codes) \
                           : search_scale(b, BLOCK, shape.grid, shape.efforts[how], false, codes); \
        pack_##name(stored_bits(b, d), codes, words); \
        store_blocks(words, n_words, out, bytes, lanes); \
    }
#define PAIR(name, bytes, n_words, shape) \
    static void name##_batch(batch *b, codec_effort how, uint8_t *out, int lanes) { \
        vi codes[BLOCK], words[16]; \
        vf d, m; \
        if (b->weighted) \
            search_pair(b, shape, how, true, &d, &m, codes); \
        else \
            search_pair(b, shape, how, false, &d, &m, codes); \
        pack_##name(stored_bits(b, d) | stored_bits(b, m) << 16, codes, words); \
        store_blocks(words, n_words, out, bytes, lanes); \
    }

static const scaled_shape q4_0_shape = {{-8, 7, false},
                                        {{{0, 0, 1}, {0, 0, 0}, 1, 0},
                                         {{-0.9f, 0.3f, 8}, {-0.6f, 0.3f, 6}, 3, 0.02f},
                                         {{-1.5f, 0.15f, 20}, {-1.2f, 0.15f, 18}, 8, 0.01f}}};
static const scaled_shape q5_0_shape = {{-16, 15, false},
                                        {{{0, 0, 1}, {0, 0, 0}, 1, 0},
                                         {{-1.2f, 0.4f, 8}, {-0.8f, 0.4f, 6}, 3, 0.01f},
                                         {{-3, 0.2f, 24}, {-2.4f, 0.2f, 20}, 8, 0.005f}}};
static const scaled_shape q8_0_shape = {{-127, 127, false},
                                        {{{0, 0, 1}, {0, 0, 0}, 0, 0},
                                         {{-6, 0.4f, 18}, {0, 0, 0}, 2, 0.001f},
                                         {{-12, 0.2f, 64}, {0, 0, 0}, 8, 0.0005f}}};
static const scaled_shape iq4_nl_shape = {{-127, 113, true},
                                          {{{0, 8, 2}, {0, 8, 1}, 1, 0},
                                           {{-14, 6, 6}, {-10, 6, 5}, 4, 0.02f},
                                           {{-24, 4, 13}, {-20, 4, 12}, 8, 0.01f}}};
static const pair_shape q4_1_shape = {
    {BLOCK, 4, true, starts_4_bits, 0.6f}, {1, 12, 20}, {0, 2, 2}, {0, 4, 8}};
static const pair_shape q5_1_shape = {
    {BLOCK, 5, true, starts_5_bits, 0.6f}, {1, 12, 20}, {0, 2, 2}, {0, 4, 8}};

SCALED(q4_0, 18, 5, q4_0_shape)
SCALED(q5_0, 22, 6, q5_0_shape)
SCALED(q8_0, 34, 9, q8_0_shape)
SCALED(iq4_nl, 18, 5, iq4_nl_shape)
PAIR(q4_1, 20, 5, q4_1_shape)
PAIR(q5_1, 24, 6, q5_1_shape)

ENCODER(q4_0, BLOCK, 18, q4_0_batch(&b, how, out, lanes))
ENCODER(q5_0, BLOCK, 22, q5_0_batch(&b, how, out, lanes))
ENCODER(iq4_nl, BLOCK, 18, iq4_nl_batch(&b, how, out, lanes))
ENCODER(q4_1, BLOCK, 20, q4_1_batch(&b, how, out, lanes))
ENCODER(q5_1, BLOCK, 24, q5_1_batch(&b, how, out, lanes))
ENCODER(q8_0, BLOCK, 34,
        (how == EFFORT_FAST ? canonical_q8_0(&b, out, lanes) : q8_0_batch(&b, how, out, lanes)))
