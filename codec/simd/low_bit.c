/* TQ1_0, TQ2_0 (-d, 0, d in blocks of 256), Q2_0 (-d, 0, d, 2d in blocks of 64), Q1_0 (-d, d in blocks of
 * 128). Each lane one block. */
#include "codec/simd/kernels.h"
#include "codec/simd/scaled.h"

/* Signs, and the (weighted) mean magnitude: least squares for them. The gain is not kept: with one bit that
 * would more than double the error. */
INLINE vf signs(const batch *b, int n, vi *codes) {
    vf sum = all(0), weight = all(0);
    for (int i = 0; i < n; i++) {
        vf w = b->weighted ? b->w[i] : all(1);
        sum = sum + w * magnitude(b->x[i]), weight = weight + w;
        codes[i] = picki(lt(b->x[i], all(0)), alli(0), alli(1));
    }
    return sum / weight;
}

/* ---- packing ---- */
/* Digits most significant first, as a fraction of 256 rounded up: ceil(256 v / 243). With v <= 242 the
 * quotient by 243 of 256 v + 242 is that of a multiplication: 17261 / 2^22 exceeds 1 / 243 by less than 1 /
 * (243 * 62195). */
INLINE vi pack_trits(const vi *codes, int stride, int digits) {
    vi v = alli(0);
    for (int k = 0; k < 5; k++) v = 3 * v + (k < digits ? codes[k * stride] : alli(0));
    return (v * 256 + 242) * 17261 >> 22;
}

INLINE void pack_tq1_0(vi d, const vi *codes, vi *words) {
    vi bytes[52];
    for (int j = 0; j < 32; j++) bytes[j] = pack_trits(codes + j, 32, 5);
    for (int j = 0; j < 16; j++) bytes[32 + j] = pack_trits(codes + 160 + j, 16, 5);
    for (int j = 0; j < 4; j++) bytes[48 + j] = pack_trits(codes + 240 + j, 4, 4);
    pack_bytes(bytes, 52, words);
    words[13] = d;
}
INLINE void pack_tq2_0(vi d, const vi *codes, vi *words) {
    pack_pairs_of_bits(codes, words);
    words[16] = d;
}
INLINE void pack_q2_0(vi d, const vi *codes, vi *words) {
    vi bytes[16];
    for (int j = 0; j < 16; j++) {
        const vi *c = codes + 4 * j;
        bytes[j] = c[0] | c[1] << 2 | c[2] << 4 | c[3] << 6;
    }
    pack_bytes(bytes, 16, words);
    prepend(words, 4, d, 16);
}
INLINE void pack_q1_0(vi d, const vi *codes, vi *words) {
    for (int i = 0; i < 4; i++) {
        words[i] = alli(0);
        for (int j = 0; j < 32; j++) words[i] = words[i] | codes[32 * i + j] << j;
    }
    prepend(words, 4, d, 16);
}

/* ---- encoders ---- */
#define BATCH(name, elements, bytes, n_words, search) \
    static void name##_batch(const batch *b, codec_effort how, uint8_t *out, int lanes) { \
        vi codes[elements], words[32]; \
        (void)how; \
        vf d = search; \
        pack_##name(stored_bits(b, d), codes, words); \
        store_blocks(words, n_words, out, bytes, lanes); \
    } \
    ENCODER(name, elements, bytes, name##_batch(&b, how, out, lanes))
#define BY_SCALE(elements, grid, efforts) \
    b->weighted ? search_scale(b, elements, grid, efforts[how], true, codes) \
                : search_scale(b, elements, grid, efforts[how], false, codes)

static const grid ternary = {-1, 1, false}, quaternary = {-1, 2, false};
/* The largest of 256 normal weights is about 2.8 standard deviations, the best step about 1.2: scales down to
 * a quarter of the largest weight are worth a try. A ternary model's own step is the first one tried. */
static const scale_effort ternary_efforts[3] = {{{0, 0.5f, 6}, {0, 0, 0}, 1, 0.05f},
                                                {{0, 0.25f, 13}, {0, 0, 0}, 4, 0.05f},
                                                {{0, 0.1f, 36}, {0, 0, 0}, 8, 0.05f}};
static const scale_effort quaternary_efforts[3] = {{{0, 0.5f, 4}, {0, 0.5f, 3}, 1, 0.05f},
                                                   {{0, 0.25f, 9}, {-0.25f, 0.25f, 8}, 4, 0.05f},
                                                   {{0, 0.1f, 24}, {-0.4f, 0.1f, 24}, 8, 0.05f}};

BATCH(tq1_0, 256, 54, 14, BY_SCALE(256, ternary, ternary_efforts))
BATCH(tq2_0, 256, 66, 17, BY_SCALE(256, ternary, ternary_efforts))
BATCH(q2_0, 64, 18, 5, BY_SCALE(64, quaternary, quaternary_efforts))
BATCH(q1_0, 128, 18, 5, signs(b, 128, codes))
