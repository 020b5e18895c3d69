/* Blocks to float32, exactly as the formats say. Plain loops over one block at a time: the compiler
 * vectorises them, and only the arithmetic in the formula rounds, so every level gives the same bits.
 *
 * A decoder is DECODE(name), with EACH_BLOCK(TYPE) as its loop. The same formulas, element by element, are in
 * codec/reference.c. Types that code weights by entries of a grid are in grid_read.c. */
#include "codec/simd/kernels.h"
#include "codec/simd/stored.h"

/* ---- plain numbers ---- */
DECODE(f32) { memcpy(x, b + 4 * first, 4 * n); }

DECODE(f16) {
    size_t i = 0;
    b += 2 * first;
#if GQ_LANES == 16 && defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(x + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(b + 2 * i))));
#elif defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(b + 2 * i))));
#endif
    for (; i < n; i++) x[i] = half_at(b + 2 * i);
}

DECODE(bf16) {
    b += 2 * first;
    for (size_t i = 0; i < n; i++) x[i] = float_of((uint32_t)block_u16(b + 2 * i) << 16);
}

/* ---- 32 elements ---- */
/* Low nibbles are elements 0..15 of a block of 32, high nibbles 16..31; `fifth` has bit i for element i.
 * Halves apart, so that each is a straight loop over bytes. */
#define NIBBLES(q, fifth, value) \
    do { \
        uint32_t low_ = (fifth), high_ = low_ >> 16; \
        for (int j = 0; j < 16; j++) { \
            int v = ((q)[j] & 15) | (int)(low_ >> j & 1) << 4; \
            x[j] = (value); \
        } \
        for (int j = 0; j < 16; j++) { \
            int v = (q)[j] >> 4 | (int)(high_ >> j & 1) << 4; \
            x[j + 16] = (value); \
        } \
    } while (0)

DECODE(q4_0) {
    EACH_BLOCK(Q4_0) {
        float d = half_at(b);
        NIBBLES(b + 2, 0, d * (float)(v - 8));
    }
}

DECODE(q4_1) {
    EACH_BLOCK(Q4_1) {
        float d = half_at(b), m = half_at(b + 2);
        NIBBLES(b + 4, 0, d * (float)v + m);
    }
}

DECODE(q5_0) {
    EACH_BLOCK(Q5_0) {
        float d = half_at(b);
        NIBBLES(b + 6, block_u32(b + 2), d * (float)(v - 16));
    }
}

DECODE(q5_1) {
    EACH_BLOCK(Q5_1) {
        float d = half_at(b), m = half_at(b + 2);
        NIBBLES(b + 8, block_u32(b + 4), d * (float)v + m);
    }
}

INLINE void scaled_bytes(float d, const uint8_t *q, float *x, int n) {
    for (int j = 0; j < n; j++) x[j] = d * (float)(int8_t)q[j];
}
DECODE(q8_0) { EACH_BLOCK(Q8_0) scaled_bytes(half_at(b), b + 2, x, 32); }
DECODE(q8_1) { EACH_BLOCK(Q8_1) scaled_bytes(half_at(b), b + 4, x, 32); }
DECODE(q8_k) { EACH_BLOCK(Q8_K) scaled_bytes(float_of(block_u32(b)), b + 4, x, 256); }

/* ---- 256 elements ---- */
DECODE(q2_k) {
    EACH_BLOCK(Q2_K) {
        float d = half_at(b + 80), dmin = half_at(b + 82);
        for (int s = 0; s < 16; s++) {
            float scale = d * (float)(b[s] & 15), min = dmin * (float)(b[s] >> 4);
            const uint8_t *q = b + 16 + 32 * (s / 8) + 16 * (s % 2);
            int shift = s / 2 % 4 * 2;
            for (int j = 0; j < 16; j++) x[16 * s + j] = scale * (float)(q[j] >> shift & 3) - min;
        }
    }
}

DECODE(q3_k) {
    EACH_BLOCK(Q3_K) {
        float d = half_at(b + 108);
        for (int s = 0; s < 16; s++) {
            int low = b[96 + s % 8] >> (s / 8 * 4) & 15, top = b[104 + s % 4] >> (s / 4 * 2) & 3;
            float scale = d * (float)(low + 16 * top - 32);
            const uint8_t *q = b + 32 + 32 * (s / 8) + 16 * (s % 2), *h = b + 16 * (s % 2);
            int shift = s / 2 % 4 * 2, bit = s / 2;
            for (int j = 0; j < 16; j++)
                x[16 * s + j] = scale * (float)((q[j] >> shift & 3) + ((h[j] >> bit & 1) << 2) - 4);
        }
    }
}

/* 32 bytes, shifted and masked as numbers of eight: of bytes x86 has no shifts. Loaded at once, since what
 * two stores have written is slow to read as one. */
typedef uint64_t codes_32 __attribute__((vector_size(32)));
#define EACH_BYTE(mask) (0x0101010101010101u * (mask))

INLINE void scaled_codes_32(const codes_32 *v, float scale, float min, float *x) {
    uint8_t code[32];
    memcpy(code, v, sizeof code);
#if GQ_LANES == 16 && defined(__AVX512F__) /* gcc 12 goes by way of 16 bits */
    for (int j = 0; j < 32; j += L) {
        vi q = (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(code + j)));
        vf_store(x + j, scale * vi_to_float(q) - min);
    }
#elif GQ_LANES == 8 && defined(__AVX2__)
    for (int j = 0; j < 32; j += L) {
        vi q = (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(code + j)));
        vf_store(x + j, scale * vi_to_float(q) - min);
    }
#else
    for (int j = 0; j < 32; j++) x[j] = scale * (float)code[j] - min;
#endif
}

DECODE(q4_k) {
    EACH_BLOCK(Q4_K) {
        float d = half_at(b), dmin = half_at(b + 2);
        uint8_t sc[8], mn[8];
        six_bit_pairs(b + 4, sc, mn);
        for (int s = 0; s < 8; s += 2) {
            codes_32 q;
            memcpy(&q, b + 16 + 16 * s, sizeof q);
            for (int k = s; k < s + 2; k++, q >>= 4) {
                codes_32 v = q & EACH_BYTE(15);
                scaled_codes_32(&v, d * (float)sc[k], dmin * (float)mn[k], x + 32 * k);
            }
        }
    }
}

DECODE(q5_k) {
    EACH_BLOCK(Q5_K) {
        float d = half_at(b), dmin = half_at(b + 2);
        uint8_t sc[8], mn[8];
        codes_32 q, fifth; /* bit 0 of each byte is that of the next sub-block */
        six_bit_pairs(b + 4, sc, mn);
        memcpy(&fifth, b + 16, sizeof fifth);
        for (int s = 0; s < 8; s += 2) {
            memcpy(&q, b + 48 + 16 * s, sizeof q);
            for (int k = s; k < s + 2; k++, q >>= 4, fifth >>= 1) {
                codes_32 v = (q & EACH_BYTE(15)) | (fifth << 4 & EACH_BYTE(16));
                scaled_codes_32(&v, d * (float)sc[k], dmin * (float)mn[k], x + 32 * k);
            }
        }
    }
}

DECODE(q6_k) {
    EACH_BLOCK(Q6_K) {
        float d = half_at(b + 208);
        for (int s = 0; s < 16; s++) {
            int half = s / 8, quarter = s / 2 % 4, l = 16 * (s % 2);
            float scale = d * (float)(int8_t)b[192 + s];
            const uint8_t *q = b + 64 * half + 32 * (quarter % 2) + l, *h = b + 128 + 32 * half + l;
            int shift = quarter / 2 * 4, bit = 2 * quarter;
            for (int j = 0; j < 16; j++)
                x[16 * s + j] = scale * (float)((q[j] >> shift & 15) + ((h[j] >> bit & 3) << 4) - 32);
        }
    }
}

/* ---- code books ---- */
INLINE void scaled_codes(float d, const int8_t *v, float *x, int n) {
    for (int j = 0; j < n; j++) x[j] = d * (float)v[j];
}

DECODE(iq4_nl) {
    EACH_BLOCK(IQ4_NL) {
        int8_t v[32];
        look_up(iq4_values, b + 2, 16, v);
        scaled_codes(half_at(b), v, x, 32);
    }
}

DECODE(iq4_xs) {
    EACH_BLOCK(IQ4_XS) {
        float d = half_at(b);
        int top = block_u16(b + 2);
        for (int s = 0; s < 8; s++) {
            int scale = ((b[4 + s / 2] >> s % 2 * 4 & 15) | (top >> 2 * s & 3) << 4) - 32;
            int8_t v[32];
            look_up(iq4_values, b + 8 + 16 * s, 16, v);
            scaled_codes(d * (float)scale, v, x + 32 * s, 32);
        }
    }
}

DECODE(mxfp4) {
    EACH_BLOCK(MXFP4) {
        int8_t v[32];
        look_up(fp4_values, b + 1, 16, v);
        scaled_codes(half_e8m0(b[0]), v, x, 32);
    }
}

DECODE(nvfp4) {
    EACH_BLOCK(NVFP4) {
        for (int s = 0; s < 4; s++) {
            int8_t v[16];
            look_up(fp4_values, b + 4 + 8 * s, 8, v);
            scaled_codes(half_e4m3(b[s]), v, x + 16 * s, 16);
        }
    }
}

/* ---- ternary and low-bit types ---- */
/* Digit n of each byte: the byte is a fraction of 256, its base-3 digits come out by multiplying. */
INLINE void decode_trits(const uint8_t *q, int bytes, int power, float d, float *x) {
    for (int j = 0; j < bytes; j++) {
        int digit = ((uint8_t)(q[j] * power) * 3) >> 8;
        x[j] = (float)(digit - 1) * d;
    }
}

DECODE(tq1_0) {
    static const int power[5] = {1, 3, 9, 27, 81};
    EACH_BLOCK(TQ1_0) {
        float d = half_at(b + 52);
        for (int k = 0; k < 5; k++) decode_trits(b, 32, power[k], d, x + 32 * k);
        for (int k = 0; k < 5; k++) decode_trits(b + 32, 16, power[k], d, x + 160 + 16 * k);
        for (int k = 0; k < 4; k++) decode_trits(b + 48, 4, power[k], d, x + 240 + 4 * k);
    }
}

DECODE(tq2_0) {
    EACH_BLOCK(TQ2_0) {
        float d = half_at(b + 64);
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 32; j++)
                x[32 * k + j] = (float)((b[32 * (k / 4) + j] >> k % 4 * 2 & 3) - 1) * d;
    }
}

DECODE(q1_0) {
    EACH_BLOCK(Q1_0) {
        float d = half_at(b);
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 8; j++) x[8 * k + j] = (float)(2 * (b[2 + k] >> j & 1) - 1) * d;
    }
}

DECODE(q2_0) {
    EACH_BLOCK(Q2_0) {
        float d = half_at(b);
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 4; j++) x[4 * k + j] = (float)((b[2 + k] >> 2 * j & 3) - 1) * d;
    }
}
