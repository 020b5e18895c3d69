/* Pairs of 16-bit integers, two elements of a block per lane: twice as many per instruction as floats. For
 * passes that are made many times over the same elements to compare ways of coding them. Integers, hence the
 * same on every CPU in any order. */
#pragma once

#include "codec/simd/lanes.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#endif

typedef int16_t vp __attribute__((vector_size(4 * GQ_LANES)));

/* a, -2^15 <= a < 2^15, in both places of a lane. */
INLINE vp vp_twice(vi a) { return (vp)((a & 0xffff) | a << 16); }
INLINE vp vp_all(int a) { return (int16_t)a + (vp){0}; }
/* Nearest integers, 0 <= a, b < 2^15. */
INLINE vp vp_pair(vf a, vf b) { return (vp)((vf_bits(a + MAGIC) & 0xffff) | vf_bits(b + MAGIC) << 16); }

/* vp_times(a, b): (a b + 2^14) >> 15, for a and b that are not both -2^15. vp_dot(a, b): per lane, the sum of
 * both products. vp_sum(a, b): a + b, or the end of 16 bits that it is beyond. vp_beyond(a, b): a - b, or 0
 * if that is less; vp_smaller(a, b); for a, b >= 0. */
#if GQ_LANES == 16 && defined(__AVX512BW__)
INLINE vp vp_times(vp a, vp b) { return (vp)_mm512_mulhrs_epi16((__m512i)a, (__m512i)b); }
INLINE vi vp_dot(vp a, vp b) { return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
INLINE vp vp_sum(vp a, vp b) { return (vp)_mm512_adds_epi16((__m512i)a, (__m512i)b); }
INLINE vp vp_beyond(vp a, vp b) { return (vp)_mm512_subs_epu16((__m512i)a, (__m512i)b); }
INLINE vp vp_smaller(vp a, vp b) { return (vp)_mm512_min_epi16((__m512i)a, (__m512i)b); }
#elif GQ_LANES == 8 && defined(__AVX2__)
INLINE vp vp_times(vp a, vp b) { return (vp)_mm256_mulhrs_epi16((__m256i)a, (__m256i)b); }
INLINE vi vp_dot(vp a, vp b) { return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
INLINE vp vp_sum(vp a, vp b) { return (vp)_mm256_adds_epi16((__m256i)a, (__m256i)b); }
INLINE vp vp_beyond(vp a, vp b) { return (vp)_mm256_subs_epu16((__m256i)a, (__m256i)b); }
INLINE vp vp_smaller(vp a, vp b) { return (vp)_mm256_min_epi16((__m256i)a, (__m256i)b); }
#elif GQ_LANES == 4 && defined(__SSE4_1__)
INLINE vp vp_times(vp a, vp b) { return (vp)_mm_mulhrs_epi16((__m128i)a, (__m128i)b); }
INLINE vi vp_dot(vp a, vp b) { return (vi)_mm_madd_epi16((__m128i)a, (__m128i)b); }
INLINE vp vp_sum(vp a, vp b) { return (vp)_mm_adds_epi16((__m128i)a, (__m128i)b); }
INLINE vp vp_beyond(vp a, vp b) { return (vp)_mm_subs_epu16((__m128i)a, (__m128i)b); }
INLINE vp vp_smaller(vp a, vp b) { return (vp)_mm_min_epi16((__m128i)a, (__m128i)b); }
#elif GQ_LANES == 4 && defined(__aarch64__)
INLINE vp vp_times(vp a, vp b) { return (vp)vqrdmulhq_s16((int16x8_t)a, (int16x8_t)b); }
INLINE vi vp_dot(vp a, vp b) {
    int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
    return (vi)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
INLINE vp vp_sum(vp a, vp b) { return (vp)vqaddq_s16((int16x8_t)a, (int16x8_t)b); }
INLINE vp vp_beyond(vp a, vp b) { return (vp)vqsubq_u16((uint16x8_t)a, (uint16x8_t)b); }
INLINE vp vp_smaller(vp a, vp b) { return (vp)vminq_s16((int16x8_t)a, (int16x8_t)b); }
#else
INLINE vi vp_first(vp a) { return (vi)a << 16 >> 16; }
INLINE vi vp_second(vp a) { return (vi)a >> 16; }
INLINE vp vp_join(vi a, vi b) { return (vp)((a & 0xffff) | b << 16); }
INLINE vp vp_times(vp a, vp b) {
    return vp_join((vp_first(a) * vp_first(b) + 0x4000) >> 15, (vp_second(a) * vp_second(b) + 0x4000) >> 15);
}
INLINE vi vp_dot(vp a, vp b) { return vp_first(a) * vp_first(b) + vp_second(a) * vp_second(b); }
INLINE vi vi_within_16_bits(vi a) {
    a = vi_smaller(a, vi_all(0x7fff));
    return vi_pick(vi_less(a, vi_all(-0x8000)), vi_all(-0x8000), a);
}
INLINE vp vp_sum(vp a, vp b) {
    return vp_join(vi_within_16_bits(vp_first(a) + vp_first(b)),
                   vi_within_16_bits(vp_second(a) + vp_second(b)));
}
/* The masks of 16-bit comparisons are all ones or zero. */
INLINE vp vp_smaller(vp a, vp b) { return (a & (vp)(a < b)) | (b & (vp)(a >= b)); }
INLINE vp vp_beyond(vp a, vp b) { return (a - b) & (vp)(a > b); }
#endif
