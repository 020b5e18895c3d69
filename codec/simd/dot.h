/* Rows times a vector, from stored blocks: what the types' functions (dot.c, dot_k.c) are made of.
 *
 * A type unpacks the codes of some columns into signed bytes, which the compiler does for 16 to 64 at a time,
 * and scales and minimums of (sub-)blocks into floats. The rest is common: bytes to floats, times x, added
 * up. Sixteen columns are a step, whatever a vector holds, so that all levels add in the same order.
 */
#ifndef GQ_DOT_H
#define GQ_DOT_H

#include "codec/simd/kernels.h"
#include "codec/simd/stored.h"
#include "codec/vector.h"

enum { STEP = 16, PARTS = STEP / L };
typedef struct step {
    vf part[PARTS];
} step;
typedef float v8 __attribute__((vector_size(32)));

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

/* What a row's sum is made of: groups in turn, and minimums. */
typedef struct row_sum {
    step of[2];
    v8 minimums;
} row_sum;

INLINE void add_step(step *sum, const float *w, const float *x) {
    for (int p = 0; p < PARTS; p++) sum->part[p] = mul_add(load(w + p * L), load(x + p * L), sum->part[p]);
}

/* A (sub-)block's columns, 16 or more. */
INLINE void add_group(step *sum, const int8_t *q, const float *x, int columns, float scale) {
    for (int p = 0; p < PARTS; p++) {
        vf products = codes_at(q + p * L) * load(x + p * L);
        for (int c = STEP; c < columns; c += STEP)
            products = mul_add(codes_at(q + c + p * L), load(x + c + p * L), products);
        sum->part[p] = mul_add(products, all(scale), sum->part[p]);
    }
}
INLINE void add_groups(row_sum *sum, const int8_t *q, const float *scale, const float *x, int groups,
                       int columns) {
    for (int g = 0; g < groups; g++)
        add_group(&sum->of[g % 2], q + g * columns, x + g * columns, columns, scale[g]);
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

INLINE float row_total(const row_sum *sum) {
    float s[STEP], m[8];
    for (int p = 0; p < PARTS; p++) store(s + p * L, sum->of[0].part[p] + sum->of[1].part[p]);
    memcpy(m, &sum->minimums, sizeof m);
    for (int half = STEP / 2; half; half /= 2)
        for (int i = 0; i < half; i++) s[i] += s[i + half];
    for (int half = 4; half; half /= 2)
        for (int i = 0; i < half; i++) m[i] += m[i + half];
    return s[0] + m[0];
}

/* Binary16 numbers `stride` bytes apart, at most 8. */
INLINE void halves_at(const uint8_t *b, int stride, int n, float *to) {
#if defined(__F16C__)
    uint16_t h[8] = {0};
    for (int i = 0; i < n; i++) memcpy(&h[i], b + i * stride, 2);
    float f[8];
    _mm256_storeu_ps(f, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h)));
    memcpy(to, f, sizeof(float) * (size_t)n);
#else
    for (int i = 0; i < n; i++) to[i] = half_at(b + i * stride);
#endif
}
INLINE float one_half_at(const uint8_t *b) {
#if defined(__F16C__)
    return _cvtsh_ss(get16(b));
#else
    return half_at(b);
#endif
}

/* What a type brings: the codes of a block; scales and minimums of n blocks, one after another. */
#define CODES(name) INLINE void codes_##name(const uint8_t *b, int8_t *q)
#define SCALES(name) \
    INLINE void scales_##name(const uint8_t *b, int n __attribute__((unused)), float *scale, \
                              float *min __attribute__((unused)))
/* The function of a type. `pack` blocks are unpacked together, as long as there are so many, then one by one:
 * codes_NAME and scales_NAME get their number, a constant. `groups` with a scale of their own in each block;
 * sums_of: NO_MINIMUM, or the sums of x that go with the minimums. */
#define NO_MINIMUM(v) NULL
#define SUMS_OF_16(v) ((v)->of16)
#define SUMS_OF_32(v) ((v)->of32)
#define DOT(type, name, pack, groups, sums_of) \
    INLINE void add_##name(row_sum *sum, const uint8_t *b, const float *x, const float *sums, int n) { \
        int8_t q[(pack)*GGUF_##type##_ELEMENTS] __attribute__((aligned(64))); \
        float scale[(pack) * (groups)] __attribute__((aligned(64))), \
            min[(pack) * (groups)] __attribute__((aligned(64))); \
        for (int i = 0; i < n; i++) \
            codes_##name(b + i * GGUF_##type##_BYTES, q + i * GGUF_##type##_ELEMENTS); \
        scales_##name(b, n, scale, min); \
        add_groups(sum, q, scale, x, n *(groups), GGUF_##type##_ELEMENTS / (groups)); \
        if (sums) add_minimums(sum, min, sums, n *(groups)); \
    } \
    void LEVEL(dot_##name)(const uint8_t *b, size_t n, size_t cols, const codec_vector *v, float *out) { \
        const size_t blocks = cols / GGUF_##type##_ELEMENTS; \
        for (size_t r = 0; r < n; r++) { \
            row_sum sum = {0}; \
            const float *x = v->x, *sums = sums_of(v); \
            size_t i = 0; \
            for (; i + (pack) <= blocks; i += (pack)) { \
                add_##name(&sum, b, x, sums, pack); \
                b += (pack)*GGUF_##type##_BYTES, x += (pack)*GGUF_##type##_ELEMENTS; \
                if (sums) sums += (pack) * (groups); \
            } \
            for (; i < blocks; i++) { \
                add_##name(&sum, b, x, sums, 1); \
                b += GGUF_##type##_BYTES, x += GGUF_##type##_ELEMENTS; \
                if (sums) sums += (groups); \
            } \
            out[r] = row_total(&sum); \
        } \
    }

#endif
