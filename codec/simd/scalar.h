/* Little-endian fields of a block, and binary16, one at a time. */
#pragma once

#include <stdint.h>
#include <string.h>

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
    /* Exponent and fraction in place, then the exponent bias moved from 15 to 127; exact for subnormals too.
     */
    uint32_t u = bits_of(float_of((uint32_t)(h & 0x7fff) << 13) * 0x1p112f);
    if ((h & 0x7c00) == 0x7c00) u |= 0x7f800000 | ((h & 0x3ff) ? 0x400000 : 0);
    return float_of(sign | u);
}
static inline float half_at(const uint8_t *p) { return half_to_float(block_u16(p)); }
