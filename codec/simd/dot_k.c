/* Rows times a vector: super-blocks of 256 elements. */
#include "codec/simd/dot.h"

/* One at a time: n is 1. */
CODES(q8_k) { memcpy(q, b + 4, 256); }
SCALES(q8_k) { scale[0] = float_of(get32(b)); }
DOT(Q8_K, q8_k, 1, 1, NO_MINIMUM)

/* ---- scales and minimums ---- */
CODES(q2_k) {
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 32; j++) q[128 * h + 32 * k + j] = (int8_t)(b[16 + 32 * h + j] >> 2 * k & 3);
}
SCALES(q2_k) {
    const float d = one_half_at(b + 80), dmin = -one_half_at(b + 82);
    for (int s = 0; s < 16; s++) scale[s] = d * (float)(b[s] & 15), min[s] = dmin * (float)(b[s] >> 4);
}
DOT(Q2_K, q2_k, 1, 16, SUMS_OF_16)

INLINE void scales_of_pairs(const uint8_t *b, float *scale, float *min) {
    const float d = one_half_at(b), dmin = -one_half_at(b + 2);
    uint8_t sc[8], mn[8];
    six_bit_pairs(b + 4, sc, mn);
    for (int s = 0; s < 8; s++) scale[s] = d * (float)sc[s], min[s] = dmin * (float)mn[s];
}

CODES(q4_k) {
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 32; j++) {
            q[64 * k + j] = (int8_t)(b[16 + 32 * k + j] & 15);
            q[64 * k + 32 + j] = (int8_t)(b[16 + 32 * k + j] >> 4);
        }
}
SCALES(q4_k) { scales_of_pairs(b, scale, min); }
DOT(Q4_K, q4_k, 1, 8, SUMS_OF_32)

CODES(q5_k) {
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 32; j++) {
            const uint8_t code = b[48 + 32 * k + j], fifth = (uint8_t)(b[16 + j] >> 2 * k);
            q[64 * k + j] = (int8_t)((code & 15) | (fifth & 1) << 4);
            q[64 * k + 32 + j] = (int8_t)(code >> 4 | (fifth & 2) << 3);
        }
}
SCALES(q5_k) { scales_of_pairs(b, scale, min); }
DOT(Q5_K, q5_k, 1, 8, SUMS_OF_32)

/* ---- scales alone ---- */
CODES(q3_k) {
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int j = 0; j < 32; j++) {
                const int low = b[32 + 32 * h + j] >> 2 * k & 3, high = b[j] >> (4 * h + k) & 1;
                q[128 * h + 32 * k + j] = (int8_t)(low + 4 * high - 4);
            }
}
SCALES(q3_k) {
    const float d = one_half_at(b + 108);
    for (int s = 0; s < 16; s++) {
        const int low = b[96 + s % 8] >> s / 8 * 4 & 15, top = b[104 + s % 4] >> s / 4 * 2 & 3;
        scale[s] = d * (float)(low + 16 * top - 32);
    }
}
DOT(Q3_K, q3_k, 1, 16, NO_MINIMUM)

CODES(q6_k) {
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 2; k++)
            for (int j = 0; j < 32; j++) {
                const uint8_t low = b[64 * h + 32 * k + j], top = (uint8_t)(b[128 + 32 * h + j] >> 2 * k);
                q[128 * h + 32 * k + j] = (int8_t)(((low & 15) | (top & 3) << 4) - 32);
                q[128 * h + 32 * k + 64 + j] = (int8_t)((low >> 4 | (top & 48)) - 32);
            }
}
SCALES(q6_k) {
    const float d = one_half_at(b + 208);
    for (int s = 0; s < 16; s++) scale[s] = d * (float)(int8_t)b[192 + s];
}
DOT(Q6_K, q6_k, 1, 16, NO_MINIMUM)

CODES(iq4_xs) {
    for (int s = 0; s < 8; s++) look_up(iq4_values, b + 8 + 16 * s, 16, q + 32 * s);
}
SCALES(iq4_xs) {
    const float d = one_half_at(b);
    const unsigned top = get16(b + 2);
    for (int s = 0; s < 8; s++)
        scale[s] = d * (float)((int)((b[4 + s / 2] >> s % 2 * 4 & 15) | (top >> 2 * s & 3) << 4) - 32);
}
DOT(IQ4_XS, iq4_xs, 1, 8, NO_MINIMUM)
