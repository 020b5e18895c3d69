/* Vectors of GQ_LANES floats, a row of weights per lane, all at the same column.
 *
 * Every kernel of this folder is compiled once per ISA level with
 *   GQ_LEVEL  suffix of its symbols (v2, v3, v4, neon, generic)
 *   GQ_LANES  floats in a native vector (4, 8, 16)
 * A batch is the same block of columns of GQ_LANES rows, transposed so that a column is one vector, and its
 * importance one number. All sums over columns are then vertical: each lane does the same IEEE operations in
 * the same order whatever the width, hence the same bytes on every CPU. Operations are the compiler's own;
 * the few intrinsics are there because gcc 12 lowers a generic select, minimum or f16 conversion to three to
 * ten instructions.
 *
 * A function's prefix is the type of vector that it works on:
 *   vf_  floats, one per lane
 *   vi_  integers of 32 bits, one per lane
 *   vm_  masks, the results of comparisons
 *   vp_  pairs of integers of 16 bits, two per lane (codec/simd/pairs.h) */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE4_1__)
#ifdef __AVX__
#include <immintrin.h>
#else
#include <smmintrin.h> /* SSE4.1: a tenth of the other to compile */
#endif
#endif

#define GQ_PASTE2(a, b) a##_##b
#define GQ_PASTE(a, b) GQ_PASTE2(a, b)
/* Name of a symbol at this level: LEVEL(encode_q4_k) is encode_q4_k_v3. */
#define LEVEL(name) GQ_PASTE(name, GQ_LEVEL)
#define INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE __attribute__((noinline))

enum { L = GQ_LANES };
typedef float vf __attribute__((vector_size(4 * GQ_LANES)));
typedef int32_t vi __attribute__((vector_size(4 * GQ_LANES)));
typedef uint32_t vu __attribute__((vector_size(4 * GQ_LANES)));

INLINE vf vf_all(float x) { return x - (vf){0}; }
INLINE vi vi_all(int32_t x) { return x + (vi){0}; }
INLINE vf vf_load(const float *p) {
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void vf_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
INLINE vi vf_bits(vf v) { return (vi)v; }
INLINE vf vf_from_bits(vi v) { return (vf)v; }

/* ---- masks, select, minimum ----
 * vf_smaller(a, b) is a < b ? a : b: the second operand when equal or unordered, as x86 has it. vf_pick(m, a, b) takes
 * a in the lanes where the mask holds, b in the others. vf_add_where(sum, m, a) adds a, vi_count(n, m) adds 1,
 * vi_set_where(bits, m, a) sets the bits of a there. vm_any(m): whether a mask holds in any lane. */
#if GQ_LANES == 16 && defined(__AVX512F__)
typedef __mmask16 vm;
INLINE vm vf_less(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
INLINE vm vf_at_most(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ); }
INLINE vm vf_equal(vf a, vf b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
INLINE vm vi_equal(vi a, vi b) { return _mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b); }
INLINE vm vi_less(vi a, vi b) { return _mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b); }
INLINE vf vf_pick(vm m, vf a, vf b) { return (vf)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a); }
INLINE vi vi_pick(vm m, vi a, vi b) { return (vi)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }
INLINE vf vf_add_where(vf sum, vm m, vf a) {
    return (vf)_mm512_mask_add_ps((__m512)sum, m, (__m512)sum, (__m512)a);
}
INLINE vi vi_count(vi n, vm m) {
    return (vi)_mm512_mask_add_epi32((__m512i)n, m, (__m512i)n, _mm512_set1_epi32(1));
}
INLINE vi vi_set_where(vi bits, vm m, vi a) {
    return (vi)_mm512_mask_or_epi32((__m512i)bits, m, (__m512i)bits, (__m512i)a);
}
INLINE vm vm_both(vm a, vm b) { return (vm)(a & b); }
INLINE vm vm_either(vm a, vm b) { return (vm)(a | b); }
INLINE vf vf_smaller(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
INLINE vf vf_larger(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vi vi_smaller(vi a, vi b) { return (vi)_mm512_min_epi32((__m512i)a, (__m512i)b); }
INLINE vi vf_to_int(vf a) { return (vi)_mm512_cvttps_epi32((__m512)a); }
INLINE bool vm_any(vm m) { return m != 0; }
#else
typedef vi vm;
INLINE vm vf_less(vf a, vf b) { return a < b; }
INLINE vm vf_at_most(vf a, vf b) { return a <= b; }
INLINE vm vf_equal(vf a, vf b) { return a == b; }
INLINE vm vi_equal(vi a, vi b) { return a == b; }
INLINE vm vi_less(vi a, vi b) { return a < b; }
INLINE vf vf_add_where(vf sum, vm m, vf a) { return sum + vf_from_bits(vf_bits(a) & m); }
INLINE vi vi_count(vi n, vm m) { return n - m; }
INLINE vi vi_set_where(vi bits, vm m, vi a) { return bits | (a & m); }
INLINE vm vm_both(vm a, vm b) { return a & b; }
INLINE vm vm_either(vm a, vm b) { return a | b; }
#if GQ_LANES == 8 && defined(__AVX2__)
INLINE vf vf_pick(vm m, vf a, vf b) { return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m); }
INLINE vf vf_smaller(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf vf_larger(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
#elif GQ_LANES == 4 && defined(__SSE4_1__)
INLINE vf vf_pick(vm m, vf a, vf b) { return (vf)_mm_blendv_ps((__m128)b, (__m128)a, (__m128)m); }
INLINE vf vf_smaller(vf a, vf b) { return (vf)_mm_min_ps((__m128)a, (__m128)b); }
INLINE vf vf_larger(vf a, vf b) { return (vf)_mm_max_ps((__m128)a, (__m128)b); }
#else
INLINE vf vf_pick(vm m, vf a, vf b) { return (vf)((m & (vi)a) | (~m & (vi)b)); }
INLINE vf vf_smaller(vf a, vf b) { return vf_pick(a < b, a, b); }
INLINE vf vf_larger(vf a, vf b) { return vf_pick(a > b, a, b); }
#endif
INLINE vi vi_pick(vm m, vi a, vi b) { return (vi)vf_pick(m, (vf)a, (vf)b); }
#if GQ_LANES == 8 && defined(__AVX2__)
INLINE vi vi_smaller(vi a, vi b) { return (vi)_mm256_min_epi32((__m256i)a, (__m256i)b); }
#elif GQ_LANES == 4 && defined(__SSE4_1__)
INLINE vi vi_smaller(vi a, vi b) { return (vi)_mm_min_epi32((__m128i)a, (__m128i)b); }
#else
INLINE vi vi_smaller(vi a, vi b) { return vi_pick(a < b, a, b); }
#endif
INLINE vi vf_to_int(vf a) { return __builtin_convertvector(a, vi); }
INLINE bool vm_any(vm m) { /* the halves of its lanes together, down to two */
    int64_t halves[L / 2], some = 0;
    memcpy(halves, &m, sizeof halves);
    for (int i = 0; i < L / 2; i++) some |= halves[i];
    return some != 0;
}
#endif

/* The upper 16 bits of a, the lower ones of b. */
INLINE vi vi_low_half(vi a, vi b) {
#if GQ_LANES == 8 && defined(__AVX2__)
    return (vi)_mm256_blend_epi16((__m256i)a, (__m256i)b, 0x55);
#elif GQ_LANES == 4 && defined(__SSE4_1__)
    return (vi)_mm_blend_epi16((__m128i)a, (__m128i)b, 0x55);
#else
    return (a & ~0xffff) | (b & 0xffff);
#endif
}

/* Square root, correctly rounded everywhere. */
INLINE vf vf_root(vf a) {
#if GQ_LANES == 16 && defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif GQ_LANES == 8 && defined(__AVX2__)
    return (vf)_mm256_sqrt_ps((__m256)a);
#elif GQ_LANES == 4 && defined(__SSE4_1__)
    return (vf)_mm_sqrt_ps((__m128)a);
#else
    for (int i = 0; i < L; i++) a[i] = sqrtf(a[i]);
    return a;
#endif
}
INLINE vf vi_to_float(vi a) { return __builtin_convertvector(a, vf); }
INLINE vf vf_magnitude(vf a) { return vf_from_bits(vf_bits(a) & 0x7fffffff); }
INLINE vf vf_clamp(vf a, vf low, vf high) { return vf_smaller(vf_larger(a, low), high); }
/* The least and the greatest of n vectors; n is a multiple of 4. Four at a time, since each waits for the one
 * before it. */
INLINE void vf_extremes(const vf *x, int n, vf *least, vf *greatest) {
    vf low[4], high[4];
    for (int k = 0; k < 4; k++) low[k] = high[k] = x[k];
    for (int i = 4; i < n; i++)
        low[i % 4] = vf_smaller(x[i], low[i % 4]), high[i % 4] = vf_larger(x[i], high[i % 4]);
    *least = vf_smaller(vf_smaller(low[0], low[1]), vf_smaller(low[2], low[3]));
    *greatest = vf_larger(vf_larger(high[0], high[1]), vf_larger(high[2], high[3]));
}

/* Nearest integer, ties to even, for |a| < 2^22: adding 1.5 * 2^23 leaves no bits for the fraction. */
#define MAGIC 12582912.0f
INLINE vf vf_nearest(vf a) { return (a + MAGIC) - MAGIC; }
/* The same as an integer: the low bits of the sum. */
INLINE vi vf_nearest_int(vf a) { return vf_bits(a + MAGIC) - 0x4b400000; }

/* table[i], 0 <= i < 16. */
INLINE vf look_up16(const float table[16], vi i) {
#if GQ_LANES == 16 && defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)i, _mm512_loadu_ps(table));
#elif GQ_LANES == 8 && defined(__AVX2__)
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), (__m256i)i);
    return (vf)_mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32((__m256i)i, 28)));
#else
    vf v;
    for (int k = 0; k < L; k++) v[k] = table[i[k]];
    return v;
#endif
}

/* table[i % 8] */
INLINE vf look_up8(const float table[8], vi i) {
#if GQ_LANES == 16 && defined(__AVX512F__)
    const __m512 twice = _mm512_castpd_ps(_mm512_broadcast_f64x4(_mm256_loadu_pd((const double *)table)));
    return (vf)_mm512_permutexvar_ps((__m512i)i, twice);
#elif GQ_LANES == 8 && defined(__AVX2__)
    return (vf)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), (__m256i)i);
#else
    vf v;
    for (int k = 0; k < L; k++) v[k] = table[i[k] & 7];
    return v;
#endif
}

/* ---- binary16, one per lane ---- */
/* Bits of the nearest binary16, ties to even, clamped to +-65504 (a block must never hold an infinite scale). */
INLINE vi half_bits(vf a) {
    vi sign = (vi)((vu)vf_bits(a) >> 16) & 0x8000;
    vf m = vf_smaller(vf_magnitude(a), vf_all(65504.0f));
    vi u = vf_bits(m);
    /* Below 2^-14 the step is 2^-24: adding 0.5, whose last place is 2^-24, rounds to it. */
    vi subnormal = vf_bits(m + 0.5f) - 0x3f000000;
    vi normal = (u - (112 << 23) + 0xfff + ((u >> 13) & 1)) >> 13;
    return sign | vi_pick(vf_less(m, vf_all(0x1p-14f)), subnormal, normal);
}
/* The value such bits stand for (finite ones). */
INLINE vf half_value(vi h) {
    vf m = vf_from_bits((h & 0x7fff) << 13) * 0x1p112f;
    return vf_from_bits(vf_bits(m) | ((h & 0x8000) << 16));
}
INLINE vf half_round(vf a) { return half_value(half_bits(a)); }

/* ---- transposition ---- */
#if GQ_LANES == 8
/* L x L square in place. Instructions of AVX2 interleave within halves of a vector: squares of 4 x 4 first,
 * and then the halves change places. */
INLINE void vf_transpose(vf r[L]) {
    vf s[L], t[L];
    for (int i = 0; i < L; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < L; i += 4)
        for (int k = 0; k < 2; k++) {
            t[i + 2 * k] = __builtin_shufflevector(s[i + k], s[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            t[i + 2 * k + 1] = __builtin_shufflevector(s[i + k], s[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < L / 2; i++) {
        r[i] = __builtin_shufflevector(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
#if GQ_LANES == 4
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#endif

/* L x L square in place: log2 L rounds, each interleaving row i with row i + L/2. */
INLINE void vf_transpose(vf r[L]) {
    for (int round = 1; round < L; round *= 2) {
        vf t[L];
        for (int i = 0; i < L / 2; i++) {
            t[2 * i] = LOW(r[i], r[i + L / 2]);
            t[2 * i + 1] = HIGH(r[i], r[i + L / 2]);
        }
        for (int i = 0; i < L; i++) r[i] = t[i];
    }
}
#endif
