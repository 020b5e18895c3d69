/* Rows times a vector: super-blocks of 256 elements. */
#include "codec/simd/dot.h"

/* One at a time: n is 1. */
CODES(q8_k) { memcpy(q, b + 4, 256); }
SCALES(q8_k) { scale[0] = float_of(block_u32(b)); }
DOT(Q8_K, q8_k, 1, 1, NO_MINIMUM)

/* ---- scales and minimums ---- */
CODES(q2_k) {
    for (int h = 0; h < 2; h++) {
        b32 v;
        memcpy(&v, b + 16 + 32 * h, 32);
        for (int k = 0; k < 4; k++, v >>= 2) {
            const b32 codes = v & 3;
            memcpy(q + 128 * h + 32 * k, &codes, 32);
        }
    }
}
SCALES(q2_k) {
    b16 v, part;
    memcpy(&v, b, 16);
    part = v & 15, dot_scale_bytes(&part, 16, one_half_at(b + 80), scale);
    part = v >> 4, dot_scale_bytes(&part, 16, -one_half_at(b + 82), min);
}
DOT(Q2_K, q2_k, 1, 16, SUMS_OF_16)

INLINE void scales_of_pairs(const uint8_t *b, float *scale, float *min) {
    uint8_t sc[8], mn[8];
    six_bit_pairs(b + 4, sc, mn);
    dot_scale_bytes(sc, 8, one_half_at(b), scale);
    dot_scale_bytes(mn, 8, -one_half_at(b + 2), min);
}

CODES(q4_k) {
    for (int k = 0; k < 4; k++) {
        b32 v;
        memcpy(&v, b + 16 + 32 * k, 32);
        const b32 low = v & 15, high = v >> 4;
        memcpy(q + 64 * k, &low, 32), memcpy(q + 64 * k + 32, &high, 32);
    }
}
SCALES(q4_k) { scales_of_pairs(b, scale, min); }
DOT(Q4_K, q4_k, 1, 8, SUMS_OF_32)

CODES(q5_k) {
    b32 v, fifth;
    memcpy(&fifth, b + 16, 32);
    for (int k = 0; k < 4; k++, fifth >>= 2) {
        memcpy(&v, b + 48 + 32 * k, 32);
        const b32 low = (v & 15) | (fifth & 1) << 4, high = v >> 4 | (fifth & 2) << 3;
        memcpy(q + 64 * k, &low, 32), memcpy(q + 64 * k + 32, &high, 32);
    }
}
SCALES(q5_k) { scales_of_pairs(b, scale, min); }
DOT(Q5_K, q5_k, 1, 8, SUMS_OF_32)

/* ---- scales alone ---- */
CODES(q3_k) {
    b32 high;
    memcpy(&high, b, 32);
    for (int h = 0; h < 2; h++) {
        b32 low;
        memcpy(&low, b + 32 + 32 * h, 32);
        for (int k = 0; k < 4; k++, low >>= 2, high >>= 1) {
            const b32 codes = (low & 3) + ((high & 1) << 2) - 4;
            memcpy(q + 128 * h + 32 * k, &codes, 32);
        }
    }
}
SCALES(q3_k) {
    /* Low parts of four bits, then top parts of two. */
    const uint32_t low[2] = {block_u32(b + 96), block_u32(b + 100)}, top = block_u32(b + 104);
    uint32_t sums[4];
    uint8_t bytes[16];
    b16 sc;
    for (int k = 0; k < 4; k++)
        sums[k] = (low[k % 2] >> k / 2 * 4 & 0x0f0f0f0f) | (top >> 2 * k & 0x03030303) << 4;
    block_put_u64(bytes, sums[0], sums[1]), block_put_u64(bytes + 8, sums[2], sums[3]);
    memcpy(&sc, bytes, 16);
    sc -= 32;
    dot_scale_bytes(&sc, 16, one_half_at(b + 108), scale);
}
DOT(Q3_K, q3_k, 1, 16, NO_MINIMUM)

CODES(q6_k) {
    for (int h = 0; h < 2; h++) {
        b32 top;
        memcpy(&top, b + 128 + 32 * h, 32);
        for (int k = 0; k < 2; k++, top >>= 2) {
            b32 v;
            memcpy(&v, b + 64 * h + 32 * k, 32);
            const b32 low = ((v & 15) | (top & 3) << 4) - 32, high = (v >> 4 | (top & 48)) - 32;
            memcpy(q + 128 * h + 32 * k, &low, 32), memcpy(q + 128 * h + 32 * k + 64, &high, 32);
        }
    }
}
SCALES(q6_k) { dot_scale_bytes(b + 192, 16, one_half_at(b + 208), scale); }
DOT(Q6_K, q6_k, 1, 16, NO_MINIMUM)

CODES(iq4_xs) {
    for (int s = 0; s < 8; s++) look_up_32(iq4_values, b + 8 + 16 * s, q + 32 * s);
}
SCALES(iq4_xs) {
    /* Nibbles of four bytes to eight bytes, and eight pairs of bits above them. */
    const uint32_t low = block_u32(b + 4), top = block_u16(b + 2);
    uint32_t nibble[2], pair[2];
    for (int h = 0; h < 2; h++) {
        const uint32_t two = low >> 16 * h & 0xffff, four = top >> 8 * h & 0xff;
        nibble[h] = (two & 15) | (two & 0xf0) << 4 | (two & 0xf00) << 8 | (two & 0xf000) << 12;
        pair[h] = ((four | four << 6 | four << 12 | four << 18) & 0x03030303) << 4;
    }
    uint8_t bytes[8];
    int8_t sc[8];
    block_put_u64(bytes, nibble[0] | pair[0], nibble[1] | pair[1]);
    for (int s = 0; s < 8; s++) sc[s] = (int8_t)(bytes[s] - 32);
    dot_scale_bytes(sc, 8, one_half_at(b), scale);
}
DOT(IQ4_XS, iq4_xs, 1, 8, NO_MINIMUM)
