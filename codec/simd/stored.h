/* The meaning of stored bytes beyond formulas: code books and packed scales. */
#pragma once

#include <stdint.h>
#include <string.h>

#include "codec/simd/lanes.h"

/* Little-endian fields of a block, and binary16, one at a time. */

static inline uint16_t block_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t block_u32(const uint8_t *p) { return block_u16(p) | (uint32_t)block_u16(p + 2) << 16; }

static inline float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static inline uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float half_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    /* Exponent and fraction in place, then the exponent bias moved from 15 to 127; exact for subnormals too. */
    uint32_t u = bits_of(float_of((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
    if ((h & 0x7c00) == 0x7c00) u |= 0x7f800000 | ((h & 0x3ff) ? 0x400000 : 0);
    return float_of(sign | u);
}
static inline float half_at(const uint8_t *p) { return half_to_float(block_u16(p)); }

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

static const int8_t iq4_values[16]
    __attribute__((unused)) = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t fp4_values[16]
    __attribute__((unused)) = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* v[j] = book[code j] for the nibbles of 8 or 16 bytes: low nibbles first. */
INLINE void look_up(const int8_t book[16], const uint8_t *q, int bytes, int8_t *v) {
#if defined(__SSSE3__)
    __m128i table = _mm_loadu_si128((const __m128i *)book), mask = _mm_set1_epi8(15), codes;
    codes = bytes == 16 ? _mm_loadu_si128((const __m128i *)q) : _mm_loadl_epi64((const __m128i *)q);
    __m128i low = _mm_shuffle_epi8(table, _mm_and_si128(codes, mask));
    __m128i high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16(codes, 4), mask));
    if (bytes == 16)
        _mm_storeu_si128((__m128i *)v, low), _mm_storeu_si128((__m128i *)(v + 16), high);
    else
        _mm_storel_epi64((__m128i *)v, low), _mm_storel_epi64((__m128i *)(v + 8), high);
#elif defined(__aarch64__)
    int8x16_t table = vld1q_s8(book);
    uint8x16_t codes = bytes == 16 ? vld1q_u8(q) : vcombine_u8(vld1_u8(q), vdup_n_u8(0));
    int8x16_t low = vqtbl1q_s8(table, vandq_u8(codes, vdupq_n_u8(15)));
    int8x16_t high = vqtbl1q_s8(table, vshrq_n_u8(codes, 4));
    if (bytes == 16)
        vst1q_s8(v, low), vst1q_s8(v + 16, high);
    else
        vst1_s8(v, vget_low_s8(low)), vst1_s8(v + 8, vget_low_s8(high));
#else
    for (int j = 0; j < bytes; j++) v[j] = book[q[j] & 15], v[j + bytes] = book[q[j] >> 4];
#endif
}

/* Eight bytes at once, the first one lowest. */
INLINE void block_put_u64(uint8_t *to, uint32_t low, uint32_t high) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t u = low | (uint64_t)high << 32;
    memcpy(to, &u, 8); /* single bytes would not be put together again by compilers */
#else
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(low >> 8 * i), to[i + 4] = (uint8_t)(high >> 8 * i);
#endif
}
/* The shared scale bytes of Q4_K and Q5_K: eight 6-bit scales and minimums. */
INLINE void six_bit_pairs(const uint8_t *s, uint8_t scale[8], uint8_t min[8]) {
    uint32_t a = block_u32(s), b = block_u32(s + 4), c = block_u32(s + 8);
    block_put_u64(scale, a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    block_put_u64(min, b & 0x3f3f3f3f, (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030));
}

/* MXFP4: 2^(e - 128), subnormal for e = 0 and 1. */
INLINE float half_e8m0(uint8_t e) {
    return e < 2 ? float_of(0x200000u << e) : float_of((uint32_t)(e - 1) << 23);
}
/* Half of an unsigned E4M3 number; bit 7 is ignored and 0x7f is zero. */
INLINE float half_e4m3(uint8_t c) {
    int e = c >> 3 & 15, m = c & 7;
    if ((c & 0x7f) == 0x7f) return c == 0x7f ? 0 : 240.0f;
    return e ? (float)(8 + m) * float_of((uint32_t)(e - 11 + 127) << 23) : (float)m * 0x1p-10f;
}
