/* exp, tanh and ln(1 + e^x) of vectors: libm's differ from machine to machine. */
#pragma once

#include "codec/simd/fma.h"

/* Within 1.1 units in the last place; below -87.7 it is 0, above 88.3 infinity. x = k ln 2 + r, and the
 * series of e^r ends after r^7, with coefficients that spread the remaining error (Cephes). ln 2 is taken off
 * in two parts, the first of so few bits that its product with k is exact. */
INLINE vf lanes_exponential(vf x) {
    const float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    x = vf_smaller(vf_all(89.0f), vf_larger(vf_all(-88.0f), x)); /* in this order NaN stays */
    vf scaled = x * log2_e, k = vf_nearest(scaled);
    vf r = vf_fused(k, vf_all(-ln2_low), vf_fused(k, vf_all(-ln2_high), x));
    vf p = vf_fused(r, vf_all(1.9875691500e-4f), vf_all(1.3981999507e-3f));
    p = vf_fused(p, r, vf_all(8.3334519073e-3f));
    p = vf_fused(p, r, vf_all(4.1665795894e-2f));
    p = vf_fused(p, r, vf_all(1.6666665459e-1f));
    p = vf_fused(p, r, vf_all(5.0000001201e-1f));
    p = vf_fused(p, r * r, r) + 1.0f;
    return p * vf_from_bits((vi)((vu)(vf_nearest_int(scaled) + 127) << 23));
}

/* Within two units in the last place. */
INLINE vf hyperbolic_tangent(vf x) {
    vf m = vf_magnitude(x), x2 = x * x;
    vf p = vf_fused(x2, vf_all(-5.70498872745e-3f), vf_all(2.06390887954e-2f));
    p = vf_fused(p, x2, vf_all(-5.37397155531e-2f));
    p = vf_fused(p, x2, vf_all(1.33314422036e-1f));
    p = vf_fused(p, x2, vf_all(-3.33332819422e-1f));
    vf small = vf_fused(p * x2, x, x);
    vf large = 1.0f - 2.0f / (lanes_exponential(m + m) + 1.0f);
    vi sign = vf_bits(x) & (vi)(INT32_MIN - (vi){0});
    return vf_pick(vf_less(m, vf_all(0.625f)), small, vf_from_bits(vf_bits(large) | sign));
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + t) with t = e^-|x|, and ln(1 + t) = 2 artanh(s) with s = t / (2 + t),
 * which is at most 1/3: eight terms of the series leave a relative error of 2e-9. */
INLINE vf lanes_softplus(vf x) {
    vf t = lanes_exponential(-vf_magnitude(x)), s = t / (2.0f + t), s2 = s * s;
    vf p = vf_fused(s2, vf_all(1.0f / 15.0f), vf_all(1.0f / 13.0f));
    p = vf_fused(p, s2, vf_all(1.0f / 11.0f));
    p = vf_fused(p, s2, vf_all(1.0f / 9.0f));
    p = vf_fused(p, s2, vf_all(1.0f / 7.0f));
    p = vf_fused(p, s2, vf_all(1.0f / 5.0f));
    p = vf_fused(p, s2, vf_all(1.0f / 3.0f));
    return vf_larger(vf_all(0.0f), x) + 2.0f * vf_fused(p * s2, s, s);
}
