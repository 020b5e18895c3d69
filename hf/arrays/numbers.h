/* The small floats of weights' files, one at a time. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float number_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t number_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float number_from_bf16(uint16_t h) { return number_of_bits((uint32_t)h << 16); }

/* 5 bits of exponent and 10 of mantissa go where a float has them; the difference of the biases, 112, is made
 * good by a product, which is exact for subnormal numbers, too. Infinities and NaN keep all bits of the
 * exponent. */
static inline float number_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) return number_of_bits(sign | 0x7f800000 | rest);
    return number_of_bits(sign | number_bits(number_of_bits(rest) * 0x1p112f));
}

/* Rounds to the nearest half precision number, ties to even, and widens it again. */
static inline float number_round_f16(float x) {
    uint32_t sign = number_bits(x) & 0x80000000;
    float a = number_of_bits(number_bits(x) ^ sign);
    if (!(a < 65520.0f)) return a <= 0x1.fffffep127f ? number_of_bits(sign | 0x7f800000) : x;
    /* Adding 2^13 times the value's power of two (at least 2^-14, the least normal one) cuts behind 10 bits.
     */
    uint32_t power = number_bits(a) & 0x7f800000;
    if (power < 113u << 23) power = 113u << 23;
    float magic = number_of_bits(power + (13u << 23));
    volatile float sum = a + magic;
    return number_of_bits(sign | number_bits(sum - magic));
}

/* 4 bits of exponent, bias 7, and 3 of mantissa; no infinity, 7F and FF are NaN. */
static inline float number_from_e4m3(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80) << 24, rest = (uint32_t)(b & 0x7f) << 20;
    if ((b & 0x7f) == 0x7f) return number_of_bits(sign | 0x7fc00000);
    return number_of_bits(sign | number_bits(number_of_bits(rest) * 0x1p120f));
}

static inline float number_from_e5m2(uint8_t b) { return number_from_f16((uint16_t)(b << 8)); }

/* A power of two: 2^(b - 127); 255 is NaN, 0 the subnormal 2^-127. */
static inline float number_from_e8m0(uint8_t b) {
    return number_of_bits(b == 255 ? 0x7fc00000 : b == 0 ? 0x00400000 : (uint32_t)b << 23);
}
