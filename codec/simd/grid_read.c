/* IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S to float32, and rows of them times a vector.
 *
 * Both begin with the codes of a block as signed bytes, and a scale for each sub-block. Nothing rounds: a
 * code has 7 bits, a scale 11 of its factor and 5 more. Signs go with codes, so that a factor of zero gives
 * the zero that the format says. */
#include "codec/grids.h"
#include "codec/simd/dot.h"

typedef uint64_t w4 __attribute__((vector_size(32)));

/* ---- 32 weights ---- */
#define BIT_OF_EACH 1, 2, 4, 8, 16, 32, 64, 128
INLINE uint64_t entry_of_8(const int8_t entry[8]) {
    uint64_t u;
    memcpy(&u, entry, 8);
    return u;
}
INLINE uint64_t entry_of_4(const int8_t entry[4]) {
    uint32_t u;
    memcpy(&u, entry, 4);
    return u;
}
/* Two entries of four, of which the first one comes first in memory. */
INLINE uint64_t entries_of_4(const int8_t first[4], const int8_t second[4]) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return entry_of_4(first) | entry_of_4(second) << 32;
#else
    return entry_of_4(first) << 32 | entry_of_4(second);
#endif
}
/* Codes of four entries to q, negative where bit j of a byte of `signs` is set for weight j of an entry. */
INLINE void put_signed(const w4 *codes, uint32_t signs, int8_t *q) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const __m256i v = (__m256i)*codes;
    _mm256_storeu_si256((__m256i *)q, _mm256_mask_sub_epi8(v, signs, _mm256_setzero_si256(), v));
#else
    const uint64_t each = 0x0101010101010101;
    const b32 place = {BIT_OF_EACH, BIT_OF_EACH, BIT_OF_EACH, BIT_OF_EACH};
    const b32 bits = (b32)(w4){(signs & 255) * each, (signs >> 8 & 255) * each, (signs >> 16 & 255) * each,
                               (signs >> 24) * each};
    const b32 negative = (b32)((bits & place) == place);
    const b32 v = ((b32)*codes ^ negative) - negative;
    memcpy(q, &v, 32);
#endif
}
/* The eighth sign of four numbers of seven bits: their number is even. */
INLINE uint32_t even_signs(uint32_t sevens) {
    uint32_t n =
        (sevens & 0x7f) | (sevens << 1 & 0x7f00) | (sevens << 2 & 0x7f0000) | (sevens << 3 & 0x7f000000);
    uint32_t odd = n ^ n >> 4;
    odd ^= odd >> 2, odd ^= odd >> 1;
    return n | (odd & 0x01010101) << 7;
}
/* Codes of four entries and the shifts of these, 1 or -1. */
INLINE void put_shifted(const w4 *codes, const int8_t shift[4], int8_t *q) {
    const uint64_t each = 0x0101010101010101;
    const w4 shifts = {(uint8_t)shift[0] * each, (uint8_t)shift[1] * each, (uint8_t)shift[2] * each,
                       (uint8_t)shift[3] * each};
    const b32 v = (b32)*codes + (b32)shifts;
    memcpy(q, &v, 32);
}

/* ---- scales ---- */
/* 2 s + 1 for the nibbles of n bytes, low ones first, times d. */
INLINE void odd_nibbles(const uint8_t *b, int n, float d, float *scale) {
    uint8_t odd[16] = {0};
    for (int i = 0; i < n; i++)
        odd[2 * i] = (uint8_t)((b[i] & 15) * 2 + 1), odd[2 * i + 1] = (uint8_t)(b[i] >> 4 << 1 | 1);
    dot_scale_bytes(odd, 2 * n, d, scale);
}
/* The same for the top four bits of eight words, `stride` bytes apart. */
INLINE void odd_tops(const uint8_t *b, int stride, float d, float *scale) {
    uint8_t odd[8];
    for (int i = 0; i < 8; i++) odd[i] = (uint8_t)(b[i * stride + 3] >> 4 << 1 | 1);
    dot_scale_bytes(odd, 8, d, scale);
}

/* ---- the types ---- */
CODES(iq2_xxs) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 8 * k;
        const w4 v = {entry_of_8(grid_iq2_xxs[p[0]]), entry_of_8(grid_iq2_xxs[p[1]]),
                      entry_of_8(grid_iq2_xxs[p[2]]), entry_of_8(grid_iq2_xxs[p[3]])};
        put_signed(&v, even_signs(block_u32(p + 4)), q + 32 * k);
    }
}
SCALES(iq2_xxs) { odd_tops(b + 6, 8, one_half_at(b) * 0.125f, scale); }

CODES(iq2_xs) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 8 * k;
        const uint32_t one = block_u16(p), two = block_u16(p + 2), three = block_u16(p + 4),
                       four = block_u16(p + 6);
        const w4 v = {entry_of_8(grid_iq2_xs[one & 511]), entry_of_8(grid_iq2_xs[two & 511]),
                      entry_of_8(grid_iq2_xs[three & 511]), entry_of_8(grid_iq2_xs[four & 511])};
        put_signed(&v, even_signs(one >> 9 | two >> 9 << 7 | three >> 9 << 14 | four >> 9 << 21), q + 32 * k);
    }
}
SCALES(iq2_xs) { odd_nibbles(b + 66, 8, one_half_at(b) * 0.125f, scale); }

CODES(iq2_s) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 4 * k;
        const unsigned top = b[66 + k];
        const w4 v = {entry_of_8(grid_iq2_s[p[0] | (top << 8 & 0x300)]),
                      entry_of_8(grid_iq2_s[p[1] | (top << 6 & 0x300)]),
                      entry_of_8(grid_iq2_s[p[2] | (top << 4 & 0x300)]),
                      entry_of_8(grid_iq2_s[p[3] | (top << 2 & 0x300)])};
        put_signed(&v, block_u32(p + 32), q + 32 * k);
    }
}
SCALES(iq2_s) { odd_nibbles(b + 74, 8, one_half_at(b) * 0.125f, scale); }

CODES(iq3_xxs) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 8 * k;
        const w4 v = {entries_of_4(grid_iq3_xxs[p[0]], grid_iq3_xxs[p[1]]),
                      entries_of_4(grid_iq3_xxs[p[2]], grid_iq3_xxs[p[3]]),
                      entries_of_4(grid_iq3_xxs[p[4]], grid_iq3_xxs[p[5]]),
                      entries_of_4(grid_iq3_xxs[p[6]], grid_iq3_xxs[p[7]])};
        put_signed(&v, even_signs(block_u32(b + 66 + 4 * k)), q + 32 * k);
    }
}
SCALES(iq3_xxs) { odd_tops(b + 66, 4, one_half_at(b) * 0.25f, scale); }

CODES(iq3_s) {
#define ENTRY(i) grid_iq3_s[p[i] | (top << (8 - (i)) & 256)]
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 8 * k;
        const unsigned top = b[66 + k];
        const w4 v = {entries_of_4(ENTRY(0), ENTRY(1)), entries_of_4(ENTRY(2), ENTRY(3)),
                      entries_of_4(ENTRY(4), ENTRY(5)), entries_of_4(ENTRY(6), ENTRY(7))};
        put_signed(&v, block_u32(b + 74 + 4 * k), q + 32 * k);
    }
#undef ENTRY
}
SCALES(iq3_s) { odd_nibbles(b + 106, 4, one_half_at(b), scale); }

CODES(iq1_s) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 2 + 4 * k;
        const unsigned top = block_u16(b + 34 + 2 * k);
        const w4 v = {
            entry_of_8(grid_iq1[p[0] | (top << 8 & 0x700)]), entry_of_8(grid_iq1[p[1] | (top << 5 & 0x700)]),
            entry_of_8(grid_iq1[p[2] | (top << 2 & 0x700)]), entry_of_8(grid_iq1[p[3] | (top >> 1 & 0x700)])};
        const int8_t shift = top >> 15 ? -1 : 1;
        put_shifted(&v, (const int8_t[4]){shift, shift, shift, shift}, q + 32 * k);
    }
}
SCALES(iq1_s) {
    uint8_t odd[8];
    for (int k = 0; k < 8; k++) odd[k] = (uint8_t)((b[35 + 2 * k] >> 3 & 14) | 1);
    dot_scale_bytes(odd, 8, one_half_at(b) * 0.125f, scale);
}

CODES(iq1_m) {
    for (int k = 0; k < 8; k++) {
        const uint8_t *p = b + 4 * k;
        const unsigned top = block_u16(b + 32 + 2 * k);
        const w4 v = {
            entry_of_8(grid_iq1[p[0] | (top << 8 & 0x700)]), entry_of_8(grid_iq1[p[1] | (top << 4 & 0x700)]),
            entry_of_8(grid_iq1[p[2] | (top & 0x700)]), entry_of_8(grid_iq1[p[3] | (top >> 4 & 0x700)])};
        const int8_t shift[4] = {(int8_t)(1 - (top >> 2 & 2)), (int8_t)(1 - (top >> 6 & 2)),
                                 (int8_t)(1 - (top >> 10 & 2)), (int8_t)(1 - (top >> 14 & 2))};
        put_shifted(&v, shift, q + 32 * k);
    }
}
SCALES(iq1_m) {
    uint8_t odd[16], d[2];
    unsigned factor = 0;
    for (int k = 0; k < 4; k++) {
        const unsigned four = block_u16(b + 48 + 2 * k);
        factor |= four >> 12 << 4 * k;
        for (int i = 0; i < 4; i++) odd[4 * k + i] = (uint8_t)((four >> 3 * i & 7) << 1 | 1);
    }
    d[0] = (uint8_t)factor, d[1] = (uint8_t)(factor >> 8);
    dot_scale_bytes(odd, 16, one_half_at(d) * 0.125f, scale);
}

#define GRID_TYPE(type, name, subs) \
    DOT(type, name, 1, subs, NO_MINIMUM) \
    DECODE(name) { \
        EACH_BLOCK(type) { \
            int8_t q[256] __attribute__((aligned(64))); \
            float scale[subs]; \
            codes_##name(b, q); \
            scales_##name(b, 1, scale, NULL); \
            for (int i = 0; i < 256; i += L) vf_store(x + i, codes_at(q + i) * scale[i / (256 / (subs))]); \
        } \
    }
GRID_TYPE(IQ2_XXS, iq2_xxs, 8)
GRID_TYPE(IQ2_XS, iq2_xs, 16)
GRID_TYPE(IQ2_S, iq2_s, 16)
GRID_TYPE(IQ3_XXS, iq3_xxs, 8)
GRID_TYPE(IQ3_S, iq3_s, 8)
GRID_TYPE(IQ1_S, iq1_s, 8)
GRID_TYPE(IQ1_M, iq1_m, 16)
