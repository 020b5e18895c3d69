/* Rows times a vector: plain numbers, types of 32 elements, FP4, and those of one or two bits.
 *
 * Plain numbers are decoded 256 columns at a time and multiplied as floats. For each other type there are its
 * codes as signed bytes (CODES) and the scales of its blocks (SCALES); DOT makes the function of both, as
 * codec/simd/dot.h describes. The last function reads memory and does nothing else: bench-dot compares the
 * others with it. */
#include "codec/simd/dot.h"

/* ---- plain numbers ---- */
enum { DECODED_COLUMNS = 256 }; /* columns that are decoded together */

enum { STEP_COLUMNS = 16, STEP_VECTORS = STEP_COLUMNS / L };

/* Sixteen columns side by side, whatever a vector holds. */
INLINE void add_step(vf sum[STEP_VECTORS], const float *w, const float *x) {
    for (int p = 0; p < STEP_VECTORS; p++) sum[p] = mul_add(vf_load(w + p * L), vf_load(x + p * L), sum[p]);
}
/* The last ones with zeros behind them. */
INLINE void add_numbers(vf sum[2][STEP_VECTORS], const float *w, const float *x, size_t n) {
    size_t k = 0;
    for (; k + 2 * STEP_COLUMNS <= n; k += 2 * STEP_COLUMNS)
        for (int i = 0; i < 2; i++) add_step(sum[i], w + k + i * STEP_COLUMNS, x + k + i * STEP_COLUMNS);
    for (int i = 0; k < n; k += STEP_COLUMNS, i++) {
        float last[2][STEP_COLUMNS] = {0};
        size_t left = n - k < STEP_COLUMNS ? n - k : STEP_COLUMNS;
        memcpy(last[0], w + k, left * sizeof *w), memcpy(last[1], x + k, left * sizeof *x);
        add_step(sum[i], last[0], last[1]);
    }
}

#define DOT_NUMBERS(type, name) \
    void LEVEL(dot_##name)(const uint8_t *b, size_t n, size_t cols, const codec_vector *v, float *out) { \
        for (size_t r = 0; r < n; r++, b += GGUF_##type##_BYTES * cols) { \
            vf sum[2][STEP_VECTORS] = {0}; \
            float s[STEP_COLUMNS]; \
            for (size_t k = 0; k < cols; k += DECODED_COLUMNS) { \
                float w[DECODED_COLUMNS] __attribute__((aligned(64))); \
                const size_t left = cols - k < DECODED_COLUMNS ? cols - k : DECODED_COLUMNS; \
                LEVEL(decode_##name)(b, k, w, left); \
                add_numbers(sum, w, v->x + k, left); \
            } \
            for (int p = 0; p < STEP_VECTORS; p++) vf_store(s + p * L, sum[0][p] + sum[1][p]); \
            out[r] = add_up(s, STEP_COLUMNS); \
        } \
    }
DOT_NUMBERS(F32, f32)
DOT_NUMBERS(F16, f16)
DOT_NUMBERS(BF16, bf16)

/* ---- 32 elements ---- */
/* A byte per bit: zero where the bit is set, `clear` elsewhere. */
INLINE void bytes_of_clear_bits(uint32_t bits, int8_t clear, int8_t *to) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    _mm256_storeu_si256((__m256i *)to, _mm256_maskz_set1_epi8(~bits, clear));
#elif defined(__AVX2__)
    const __m256i place = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i source = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i of = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), source);
    const __m256i is_clear = _mm256_cmpeq_epi8(_mm256_and_si256(of, place), _mm256_setzero_si256());
    _mm256_storeu_si256((__m256i *)to, _mm256_and_si256(is_clear, _mm256_set1_epi8(clear)));
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

INLINE void dot_unpack_nibbles(const uint8_t *b, uint8_t less, int8_t *q) {
    b16 codes[2];
    b32 v;
    nibbles_at(b, codes);
    memcpy(&v, codes, 32);
    v -= less;
    memcpy(q, &v, 32);
}
/* With a fifth bit, as q - 16: that of the code's own bits where it is set, less 16 where it is not. */
INLINE void nibbles_and_fifth(const uint8_t *b, uint32_t fifth, uint8_t more, int8_t *q) {
    int8_t clear[32];
    b16 codes[2];
    b32 v, c;
    nibbles_at(b, codes);
    bytes_of_clear_bits(fifth, -16, clear);
    memcpy(&v, codes, 32), memcpy(&c, clear, 32);
    v += c + more;
    memcpy(q, &v, 32);
}

/* A binary16 scale at the beginning of a block, and a minimum behind it. */
#define SCALE_FIRST(type, name) \
    SCALES(name) { halves_at(b, GGUF_##type##_BYTES, n, scale); }
#define SCALE_AND_MINIMUM_FIRST(type, name) \
    SCALES(name) { \
        halves_at(b, GGUF_##type##_BYTES, n, scale); \
        halves_at(b + 2, GGUF_##type##_BYTES, n, min); \
    }

CODES(q4_0) { dot_unpack_nibbles(b + 2, 8, q); }
SCALE_FIRST(Q4_0, q4_0)
DOT(Q4_0, q4_0, 8, 1, NO_MINIMUM)

CODES(q4_1) { dot_unpack_nibbles(b + 4, 0, q); }
SCALE_AND_MINIMUM_FIRST(Q4_1, q4_1)
DOT(Q4_1, q4_1, 8, 1, SUMS_OF_32)

CODES(q5_0) { nibbles_and_fifth(b + 6, block_u32(b + 2), 0, q); }
SCALE_FIRST(Q5_0, q5_0)
DOT(Q5_0, q5_0, 8, 1, NO_MINIMUM)

CODES(q5_1) { nibbles_and_fifth(b + 8, block_u32(b + 4), 16, q); }
SCALE_AND_MINIMUM_FIRST(Q5_1, q5_1)
DOT(Q5_1, q5_1, 8, 1, SUMS_OF_32)

CODES(q8_0) { memcpy(q, b + 2, 32); }
SCALE_FIRST(Q8_0, q8_0)
DOT(Q8_0, q8_0, 8, 1, NO_MINIMUM)

CODES(q8_1) { memcpy(q, b + 4, 32); }
SCALE_FIRST(Q8_1, q8_1)
DOT(Q8_1, q8_1, 8, 1, NO_MINIMUM)

CODES(iq4_nl) { look_up_32(iq4_values, b + 2, q); }
SCALE_FIRST(IQ4_NL, iq4_nl)
DOT(IQ4_NL, iq4_nl, 8, 1, NO_MINIMUM)

/* ---- FP4 ---- */
CODES(mxfp4) { look_up_32(fp4_values, b + 1, q); }
SCALES(mxfp4) {
    typedef int32_t i8 __attribute__((vector_size(32)));
    i8 e = {0};
    for (int i = 0; i < n; i++) e[i] = b[i * GGUF_MXFP4_BYTES];
    const i8 small = e < 2, value = (small & (0x200000 << (e & 1))) | (~small & ((e - 1) << 23));
    memcpy(scale, &value, sizeof *scale * (size_t)n);
}
DOT(MXFP4, mxfp4, 8, 1, NO_MINIMUM)

CODES(nvfp4) {
    for (int s = 0; s < 4; s += 2) {
#if defined(__AVX2__)
        __m256i v;
        look_up_32(fp4_values, b + 4 + 8 * s, q + 16 * s);
        memcpy(&v, q + 16 * s, 32);
        v = _mm256_permute4x64_epi64(v, 0xd8); /* low and high nibbles of eight bytes beside each other */
        memcpy(q + 16 * s, &v, 32);
#else
        for (int i = s; i < s + 2; i++) look_up(fp4_values, b + 4 + 8 * i, 8, q + 16 * i);
#endif
    }
}
/* half_e4m3, of two blocks at once. */
SCALES(nvfp4) {
    typedef uint8_t b8 __attribute__((vector_size(8)));
    typedef int32_t i8 __attribute__((vector_size(32)));
    for (int i = 0; i < n; i += 2) {
        uint8_t bytes[8];
        b8 codes;
        block_put_u64(bytes, block_u32(b + i * GGUF_NVFP4_BYTES),
                      i + 1 < n ? block_u32(b + (i + 1) * GGUF_NVFP4_BYTES) : 0);
        memcpy(&codes, bytes, 8);
        const i8 c = __builtin_convertvector(codes, i8);
        /* 2^(e - 11) times the fraction, which has its leading one where e is not 0. */
        const i8 e = c >> 3 & 15, small = e == 0, fraction = (c & 7) | (8 & ~small);
        const v8 value = __builtin_convertvector(fraction, v8) * (v8)((e - small + 116) << 23);
        const i8 kept = (i8)value & (c != 0x7f);
        memcpy(scale + 4 * i, &kept, sizeof kept);
    }
}
DOT(NVFP4, nvfp4, 4, 4, NO_MINIMUM)

/* ---- one and two bits ---- */
/* Digits of 16 bytes, which are fractions of 256 in base 3. */
INLINE void dot_unpack_trits(const uint8_t *b, uint8_t power, int8_t *q) {
    typedef uint16_t w16 __attribute__((vector_size(32)));
    b16 v;
    memcpy(&v, b, 16);
    v *= power;
    const b16 digits = __builtin_convertvector((__builtin_convertvector(v, w16) * 3) >> 8, b16) - 1;
    memcpy(q, &digits, 16);
}
CODES(tq1_0) {
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t last[16] = {0};
    int8_t digits[16];
    memcpy(last, b + 48, 4);
    for (int k = 0; k < 5; k++)
        dot_unpack_trits(b, power[k], q + 32 * k), dot_unpack_trits(b + 16, power[k], q + 32 * k + 16);
    for (int k = 0; k < 5; k++) dot_unpack_trits(b + 32, power[k], q + 160 + 16 * k);
    for (int k = 0; k < 4; k++) dot_unpack_trits(last, power[k], digits), memcpy(q + 240 + 4 * k, digits, 4);
}
SCALES(tq1_0) { halves_at(b + 52, GGUF_TQ1_0_BYTES, n, scale); }
DOT(TQ1_0, tq1_0, 1, 1, NO_MINIMUM)

CODES(tq2_0) {
    for (int h = 0; h < 2; h++) {
        b32 v;
        memcpy(&v, b + 32 * h, 32);
        for (int k = 0; k < 4; k++, v >>= 2) {
            const b32 digits = (v & 3) - 1;
            memcpy(q + 128 * h + 32 * k, &digits, 32);
        }
    }
}
SCALES(tq2_0) { halves_at(b + 64, GGUF_TQ2_0_BYTES, n, scale); }
DOT(TQ2_0, tq2_0, 1, 1, NO_MINIMUM)

CODES(q1_0) {
    for (int k = 0; k < 4; k++) {
        int8_t clear[32];
        b32 v;
        bytes_of_clear_bits(block_u32(b + 2 + 4 * k), -2, clear);
        memcpy(&v, clear, 32);
        v += 1;
        memcpy(q + 32 * k, &v, 32);
    }
}
SCALE_FIRST(Q1_0, q1_0)
DOT(Q1_0, q1_0, 2, 1, NO_MINIMUM)

/* Four neighbours from a byte: spread over four bytes, the byte's pairs of bits are where a shift by their
 * place leaves them low. */
CODES(q2_0) {
    for (int k = 0; k < 4; k++) {
        uint32_t spread[4];
        b16 v;
        for (int j = 0; j < 4; j++) {
            const uint32_t u = b[2 + 4 * k + j];
            spread[j] = (u | u << 6 | u << 12 | u << 18) & 0x03030303;
        }
        memcpy(&v, spread, 16);
        v -= 1;
        memcpy(q + 16 * k, &v, 16);
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
