/* Rows times a vector, from stored blocks: what the types' functions (dot.c, dot_k.c) are made of.
 *
 * A type unpacks the codes of some columns into signed bytes, which the compiler does for 16 to 64 at a time,
 * and scales and minimums of (sub-)blocks into floats. The rest is common: bytes to words, times x in 16
 * bits, two neighbours added up per lane, to floats, times scale. Compared with x as floats that takes half
 * the instructions, and memory rather than the processor is what rows of 4 bits have to wait for. */
#pragma once

#include "codec/simd/kernels.h"
#include "codec/simd/pairs.h"
#include "codec/simd/stored.h"
#include "codec/vector.h"

typedef float v8 __attribute__((vector_size(32)));
typedef uint8_t b16 __attribute__((vector_size(16)));
typedef uint8_t b32 __attribute__((vector_size(32)));

/* An array that has to be in memory here: bytes are widened and scales are broadcast by the loads, while the
 * compiler would take vectors apart for that. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

/* a b + c, rounded once where the level can. */
INLINE vf mul_add(vf a, vf b, vf c) {
#if GQ_LANES == 16 && defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif GQ_LANES == 8 && defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif GQ_LANES == 4 && defined(__aarch64__)
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}

/* L codes as floats. */
INLINE vf codes_at(const int8_t *q) {
#if GQ_LANES == 16 && defined(__AVX512F__)
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)q)));
#elif GQ_LANES == 8 && defined(__AVX2__)
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)q)));
#elif GQ_LANES == 4 && defined(__SSE4_1__)
    int32_t four;
    memcpy(&four, q, 4);
    return (vf)_mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
#else
    vf v;
    for (int i = 0; i < L; i++) v[i] = (float)q[i];
    return v;
#endif
}

/* 2 L codes as words. */
INLINE vp words_at(const int8_t *q) {
#if GQ_LANES == 16 && defined(__AVX512BW__)
    return (vp)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)q));
#elif GQ_LANES == 8 && defined(__AVX2__)
    return (vp)_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)q));
#elif GQ_LANES == 4 && defined(__SSE4_1__)
    return (vp)_mm_cvtepi8_epi16(_mm_loadl_epi64((const __m128i *)q));
#elif GQ_LANES == 4 && defined(__aarch64__)
    return (vp)vmovl_s8(vld1_s8(q));
#else
    vp v;
    for (int i = 0; i < 2 * L; i++) v[i] = q[i];
    return v;
#endif
}
INLINE vp load_words(const int16_t *p) {
    vp v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The parts of a row's sum: groups of columns in turn, and minimums. */
typedef struct row_sum {
    vf of[2];
    v8 minimums;
} row_sum;

/* Sums of code times x in n groups of 16 or 32 columns, each times its factor. */
INLINE void add_groups(row_sum *sum, const int8_t *q, const float *factor, const int16_t *x, int n,
                       int columns) {
    if (columns >= 2 * L)
        for (int g = 0; g < n; g++, q += columns, x += columns) {
            vi products = vp_dot(words_at(q), load_words(x));
            for (int c = 2 * L; c < columns; c += 2 * L)
                products += vp_dot(words_at(q + c), load_words(x + c));
            sum->of[g % 2] = mul_add(vi_to_float(products), vf_all(factor[g]), sum->of[g % 2]);
        }
#if GQ_LANES == 16 && defined(__AVX512F__)
    if (columns < 2 * L) /* two groups in a vector */
        for (int g = 0; g < n; g += 2, q += 2 * L, x += 2 * L) {
            const vf both_factors = (vf)_mm512_mask_broadcastss_ps(_mm512_set1_ps(factor[g]), 0xff00,
                                                                   _mm_load_ss(&factor[g + 1]));
            const vi products = vp_dot(words_at(q), load_words(x));
            sum->of[g / 2 % 2] = mul_add(vi_to_float(products), both_factors, sum->of[g / 2 % 2]);
        }
#endif
}
/* Minimums of groups, times the sums of x over these. */
INLINE void add_minimums(row_sum *sum, const float *min, const float *sums, int groups) {
    for (int g = 0; g + 8 <= groups; g += 8) {
        v8 m, s;
        memcpy(&m, min + g, sizeof m), memcpy(&s, sums + g, sizeof s);
        sum->minimums += m * s;
    }
    for (int g = groups / 8 * 8; g < groups; g++) sum->minimums[g % 8] += min[g] * sums[g];
}

/* n a power of two: halves are added until one is left. */
INLINE float add_up(float *s, int n) {
    for (int half = n / 2; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    return s[0];
}
INLINE float row_total(const row_sum *sum) {
    float s[L], m[8];
    vf_store(s, sum->of[0] + sum->of[1]);
    memcpy(m, &sum->minimums, sizeof m);
    return add_up(s, L) + add_up(m, 8);
}

/* n whole numbers of eight bits, 8 or 16 of them, times d. */
INLINE void dot_scale_bytes(const void *q, int n, float d, float *to) {
#if defined(__AVX2__)
    for (int i = 0; i < n; i += 8) {
        const __m128i eight = _mm_loadl_epi64((const __m128i *)((const int8_t *)q + i));
        _mm256_storeu_ps(to + i,
                         _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)), _mm256_set1_ps(d)));
    }
#else
    for (int i = 0; i < n; i += L) vf_store(to + i, codes_at((const int8_t *)q + i) * vf_all(d));
#endif
}

/* The codes of a block of 32 in 16 bytes: low nibbles, then high ones. All 32 are stored at once where they
 * are loaded so. */
INLINE void nibbles_at(const uint8_t *b, b16 q[2]) {
#if defined(__AVX2__)
    const __m128i v = _mm_loadu_si128((const __m128i *)b);
    const __m256i two = _mm256_inserti128_si256(_mm256_castsi128_si256(v), _mm_srli_epi16(v, 4), 1);
    _mm256_storeu_si256((__m256i *)q, _mm256_and_si256(two, _mm256_set1_epi8(15)));
#else
    b16 v;
    memcpy(&v, b, 16);
    q[0] = v & 15, q[1] = v >> 4;
#endif
}
/* Looks 32 codes up in a code book. */
INLINE void look_up_32(const int8_t book[16], const uint8_t *b, int8_t *q) {
#if defined(__AVX2__)
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)book));
    b16 codes[2];
    nibbles_at(b, codes);
    const __m256i found = _mm256_shuffle_epi8(table, _mm256_loadu_si256((const __m256i *)codes));
    _mm256_storeu_si256((__m256i *)q, found);
#else
    look_up(book, b, 16, q);
#endif
}

/* Binary16 numbers `stride` bytes apart, at most 8. */
INLINE void halves_at(const uint8_t *b, int stride, int n, float *to) {
#if defined(__F16C__)
    uint64_t h[2] = {0}; /* put together without memory, which would have to wait for the last one */
    for (int i = 0; i < n; i++) h[i / 4] |= (uint64_t)block_u16(b + i * stride) << i % 4 * 16;
    float f[8];
    _mm256_storeu_ps(f, _mm256_cvtph_ps(_mm_set_epi64x((int64_t)h[1], (int64_t)h[0])));
    memcpy(to, f, sizeof(float) * (size_t)n);
#else
    for (int i = 0; i < n; i++) to[i] = half_at(b + i * stride);
#endif
}
INLINE float one_half_at(const uint8_t *b) {
#if defined(__F16C__)
    return _cvtsh_ss(block_u16(b));
#else
    return half_at(b);
#endif
}

/* factor[i] = scale[i] step[i] */
INLINE void dot_multiply(const float *scale, const float *step, float *factor, int n) {
    int i = 0;
    for (; i + 8 <= n; i += 8) {
        v8 a, b;
        memcpy(&a, scale + i, sizeof a), memcpy(&b, step + i, sizeof b);
        a *= b;
        memcpy(factor + i, &a, sizeof a);
    }
    for (; i < n; i++) factor[i] = scale[i] * step[i];
}

/* A tensor type supplies the codes of a block, then scales and minimums of n blocks in order. */
#define CODES(name) INLINE void codes_##name(const uint8_t *b, int8_t *q)
#define SCALES(name) \
    INLINE void scales_##name(const uint8_t *b, int n __attribute__((unused)), float *scale, \
                              float *min __attribute__((unused)))
/* Bytes by which memory is asked in advance. */
enum { AHEAD_BYTES = 2048 };
/* The function of a type. `pack` blocks are unpacked together, as long as there are so many, then one by one:
 * codes_NAME and scales_NAME get their number, a constant. `groups` with a scale of their own in each block,
 * of 16 columns or a multiple of 32; sums: NO_MINIMUM, or the sums of x that go with the minimums. */
#define NO_MINIMUM(v) NULL
#define SUMS_OF_16(v) ((v)->of16)
#define SUMS_OF_32(v) ((v)->of32)
#define DOT(type, name, pack, groups, sums_of) \
    INLINE void add_##name(row_sum *sum, const uint8_t *b, const codec_vector *v, size_t k, int n) { \
        enum { \
            OF_GROUP = GGUF_##type##_ELEMENTS / (groups), \
            UNIT = OF_GROUP < 32 ? OF_GROUP : 32, \
            UNITS = (pack)*GGUF_##type##_ELEMENTS / UNIT \
        }; \
        int8_t q[UNITS * UNIT] __attribute__((aligned(64))); \
        float scale[(pack) * (groups)] __attribute__((aligned(64))), \
            factor[UNITS] __attribute__((aligned(64))), min[(pack) * (groups)] __attribute__((aligned(64))); \
        const float *step = (UNIT == 16 ? v->step16 : v->step32) + k / UNIT, *sums = sums_of(v); \
        const int units = n * GGUF_##type##_ELEMENTS / UNIT; \
        for (int i = 0; i < n; i++) \
            codes_##name(b + i * GGUF_##type##_BYTES, q + i * GGUF_##type##_ELEMENTS); \
        scales_##name(b, n, scale, min); \
        if (OF_GROUP == UNIT) \
            dot_multiply(scale, step, factor, units); \
        else \
            for (int i = 0; i < units; i++) factor[i] = scale[i * UNIT / OF_GROUP] * step[i]; \
        IN_MEMORY(q); \
        IN_MEMORY(factor); \
        add_groups(sum, q, factor, v->fixed + k, units, UNIT); \
        if (sums) add_minimums(sum, min, sums + k / OF_GROUP, n * (groups)); \
    } \
    void LEVEL(dot_##name)(const uint8_t *b, size_t n, size_t cols, const codec_vector *v, float *out) { \
        enum { PACK = (pack)*GGUF_##type##_ELEMENTS, PACK_BYTES = (pack)*GGUF_##type##_BYTES }; \
        for (size_t r = 0; r < n; r++) { \
            row_sum sum = {0}; \
            size_t k = 0; \
            for (; k + PACK <= cols; k += PACK, b += PACK_BYTES) { \
                for (int at = 0; at < PACK_BYTES; at += 64) __builtin_prefetch(b + AHEAD_BYTES + at); \
                add_##name(&sum, b, v, k, pack); \
            } \
            for (; k < cols; k += GGUF_##type##_ELEMENTS, b += GGUF_##type##_BYTES) \
                add_##name(&sum, b, v, k, 1); \
            out[r] = row_total(&sum); \
        } \
    }
