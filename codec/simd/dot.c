/* Rows times a vector: plain numbers, types of 32 elements, FP4, and those of one or two bits. */
#include "codec/simd/dot.h"

/* ---- plain numbers ---- */
enum { TILE = 256 }; /* columns that are decoded together */

/* Like TILE columns; the last ones with zeros behind them. */
INLINE void add_numbers(row_sum *sum, const float *w, const float *x, size_t n) {
    size_t k = 0;
    for (; k + 2 * STEP <= n; k += 2 * STEP)
        for (int i = 0; i < 2; i++) add_step(&sum->of[i], w + k + i * STEP, x + k + i * STEP);
    for (int i = 0; k < n; k += STEP, i++) {
        float last[2][STEP] = {0};
        size_t left = n - k < STEP ? n - k : STEP;
        memcpy(last[0], w + k, left * sizeof *w), memcpy(last[1], x + k, left * sizeof *x);
        add_step(&sum->of[i], last[0], last[1]);
    }
}

#define DOT_NUMBERS(name, bytes) \
    void LEVEL(dot_##name)(const uint8_t *b, size_t n, size_t cols, const codec_vector *v, float *out) { \
        for (size_t r = 0; r < n; r++, b += (bytes)*cols) { \
            row_sum sum = {0}; \
            for (size_t k = 0; k < cols; k += TILE) { \
                float w[TILE] __attribute__((aligned(64))); \
                const size_t left = cols - k < TILE ? cols - k : TILE; \
                LEVEL(decode_##name)(b + (bytes)*k, w, left); \
                add_numbers(&sum, w, v->x + k, left); \
            } \
            out[r] = row_total(&sum); \
        } \
    }
DOT_NUMBERS(f32, 4)
DOT_NUMBERS(f16, 2)
DOT_NUMBERS(bf16, 2)

/* ---- 32 elements ---- */
/* A byte per bit: zero where the bit is set, `clear` elsewhere. */
INLINE void bytes_of_clear_bits(uint32_t bits, int8_t clear, int8_t *to) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    _mm256_storeu_si256((__m256i *)to, _mm256_maskz_set1_epi8(~bits, clear));
#elif defined(__SSSE3__)
    const __m128i place = _mm_set1_epi64x((int64_t)0x8040201008040201), all_clear = _mm_set1_epi8(clear);
    const __m128i source = _mm_cvtsi32_si128((int)bits);
    for (int i = 0; i < 2; i++) {
        __m128i of = _mm_set_epi64x(0x0101010101010101, 0);
        of = _mm_shuffle_epi8(source, i ? _mm_add_epi8(of, _mm_set1_epi8(2)) : of);
        __m128i is_clear = _mm_cmpeq_epi8(_mm_and_si128(of, place), _mm_setzero_si128());
        _mm_storeu_si128((__m128i *)(to + 16 * i), _mm_and_si128(is_clear, all_clear));
    }
#else
    for (int k = 0; k < 32; k++) to[k] = bits >> k & 1 ? 0 : clear;
#endif
}

INLINE void nibbles(const uint8_t *b, int less, int8_t *q) {
    for (int j = 0; j < 16; j++)
        q[j] = (int8_t)((b[j] & 15) - less), q[j + 16] = (int8_t)((b[j] >> 4) - less);
}
/* With a fifth bit, as q - 16: that of the code's own bits where it is set, less 16 where it is not. */
INLINE void nibbles_and_fifth(const uint8_t *b, uint32_t fifth, int more, int8_t *q) {
    int8_t clear[32];
    bytes_of_clear_bits(fifth, -16, clear);
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((b[j] & 15) + clear[j] + more);
        q[j + 16] = (int8_t)((b[j] >> 4) + clear[j + 16] + more);
    }
}

/* A binary16 scale at the beginning of a block, and a minimum behind it. */
#define SCALE_FIRST(type, name) \
    SCALES(name) { halves_at(b, GGUF_##type##_BYTES, n, scale); }
#define SCALE_AND_MINIMUM_FIRST(type, name) \
    SCALES(name) { \
        halves_at(b, GGUF_##type##_BYTES, n, scale); \
        halves_at(b + 2, GGUF_##type##_BYTES, n, min); \
    }

CODES(q4_0) { nibbles(b + 2, 8, q); }
SCALE_FIRST(Q4_0, q4_0)
DOT(Q4_0, q4_0, 8, 1, NO_MINIMUM)

CODES(q4_1) { nibbles(b + 4, 0, q); }
SCALE_AND_MINIMUM_FIRST(Q4_1, q4_1)
DOT(Q4_1, q4_1, 8, 1, SUMS_OF_32)

CODES(q5_0) { nibbles_and_fifth(b + 6, get32(b + 2), 0, q); }
SCALE_FIRST(Q5_0, q5_0)
DOT(Q5_0, q5_0, 8, 1, NO_MINIMUM)

CODES(q5_1) { nibbles_and_fifth(b + 8, get32(b + 4), 16, q); }
SCALE_AND_MINIMUM_FIRST(Q5_1, q5_1)
DOT(Q5_1, q5_1, 8, 1, SUMS_OF_32)

CODES(q8_0) { memcpy(q, b + 2, 32); }
SCALE_FIRST(Q8_0, q8_0)
DOT(Q8_0, q8_0, 8, 1, NO_MINIMUM)

CODES(q8_1) { memcpy(q, b + 4, 32); }
SCALE_FIRST(Q8_1, q8_1)
DOT(Q8_1, q8_1, 8, 1, NO_MINIMUM)

CODES(iq4_nl) { look_up(iq4_values, b + 2, 16, q); }
SCALE_FIRST(IQ4_NL, iq4_nl)
DOT(IQ4_NL, iq4_nl, 8, 1, NO_MINIMUM)

/* ---- FP4 ---- */
CODES(mxfp4) { look_up(fp4_values, b + 1, 16, q); }
SCALES(mxfp4) {
    for (int i = 0; i < n; i++) scale[i] = half_e8m0(b[i * GGUF_MXFP4_BYTES]);
}
DOT(MXFP4, mxfp4, 8, 1, NO_MINIMUM)

CODES(nvfp4) {
    for (int s = 0; s < 4; s++) look_up(fp4_values, b + 4 + 8 * s, 8, q + 16 * s);
}
SCALES(nvfp4) {
    for (int i = 0; i < 4 * n; i++) scale[i] = half_e4m3(b[i / 4 * GGUF_NVFP4_BYTES + i % 4]);
}
DOT(NVFP4, nvfp4, 4, 4, NO_MINIMUM)

/* ---- one and two bits ---- */
INLINE void trits(const uint8_t *b, int bytes, int power, int8_t *q) {
    for (int j = 0; j < bytes; j++) q[j] = (int8_t)(((uint8_t)(b[j] * power) * 3 >> 8) - 1);
}
CODES(tq1_0) {
    static const int power[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < 5; k++) trits(b, 32, power[k], q + 32 * k);
    for (int k = 0; k < 5; k++) trits(b + 32, 16, power[k], q + 160 + 16 * k);
    for (int k = 0; k < 4; k++) trits(b + 48, 4, power[k], q + 240 + 4 * k);
}
SCALES(tq1_0) { halves_at(b + 52, GGUF_TQ1_0_BYTES, n, scale); }
DOT(TQ1_0, tq1_0, 1, 1, NO_MINIMUM)

CODES(tq2_0) {
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < 32; j++) q[32 * k + j] = (int8_t)((b[32 * (k / 4) + j] >> k % 4 * 2 & 3) - 1);
}
SCALES(tq2_0) { halves_at(b + 64, GGUF_TQ2_0_BYTES, n, scale); }
DOT(TQ2_0, tq2_0, 1, 1, NO_MINIMUM)

CODES(q1_0) {
    for (int k = 0; k < 4; k++) {
        bytes_of_clear_bits(get32(b + 2 + 4 * k), -2, q + 32 * k);
        for (int j = 0; j < 32; j++) q[32 * k + j]++;
    }
}
SCALE_FIRST(Q1_0, q1_0)
DOT(Q1_0, q1_0, 2, 1, NO_MINIMUM)

/* Four neighbours from a byte: spread over four bytes, the byte's pairs of bits are where a shift by their
 * place leaves them low. */
CODES(q2_0) {
    for (int k = 0; k < 16; k++) {
        uint32_t u = b[2 + k];
        u = (u | u << 6 | u << 12 | u << 18) & 0x03030303;
        for (int j = 0; j < 4; j++) q[4 * k + j] = (int8_t)((int)(u >> 8 * j & 255) - 1);
    }
}
SCALE_FIRST(Q2_0, q2_0)
DOT(Q2_0, q2_0, 4, 1, NO_MINIMUM)

/* ---- memory alone ---- */
uint64_t LEVEL(read)(const uint8_t *bytes, size_t n) {
    typedef uint64_t words __attribute__((vector_size(4 * GQ_LANES)));
    enum { CHAINS = 4 };
    words sum[CHAINS] = {{0}};
    size_t i = 0;
    for (; i + sizeof sum <= n; i += sizeof sum)
        for (size_t k = 0; k < CHAINS; k++) {
            words w;
            memcpy(&w, bytes + i + k * sizeof w, sizeof w);
            sum[k] += w;
        }
    uint64_t total = 0;
    for (; i < n; i++) total += bytes[i];
    for (int k = 1; k < CHAINS; k++) sum[0] += sum[k];
    for (int k = 0; k < L / 2; k++) total += sum[0][k];
    return total;
}
