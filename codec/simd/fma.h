/* a b + c for vectors and for numbers: fused, one rounding, where the level can; every level but x86-64-v2
 * and generic can. */
#pragma once

#include "codec/simd/lanes.h"

#if defined(__AVX512F__)
INLINE vf vf_fused(vf a, vf b, vf c) { return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(__FMA__)
INLINE vf vf_fused(vf a, vf b, vf c) { return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(__aarch64__)
#include <arm_neon.h>
INLINE vf vf_fused(vf a, vf b, vf c) { return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
#else
INLINE vf vf_fused(vf a, vf b, vf c) { return a * b + c; }
#endif
#if defined(__FMA__) || defined(__aarch64__)
INLINE float float_fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
INLINE float float_fused(float a, float b, float c) { return a * b + c; }
#endif
