/* Encoders of the plain number types, and whether float32 values are finite. */
#include "codec/simd/kernels.h"
#include "codec/simd/stored.h"

#define ENCODE(name) \
    void LEVEL(encode_##name)(const float *x, uint8_t *b, size_t rows, size_t cols, const float *importance, \
                              const encode_settings *settings)

ENCODE(f32) {
    (void)importance, (void)settings;
    memcpy(b, x, 4 * rows * cols);
}

/* Nearest, ties to even; magnitudes from 65520 up become infinite, any NaN the canonical one. */
static inline uint16_t half_of(float f) {
    uint32_t u = bits_of(f), m = u & 0x7fffffff;
    uint32_t normal = (m - (112u << 23) + 0xfff + (m >> 13 & 1)) >> 13;
    uint32_t subnormal = bits_of(float_of(m) + 0.5f) - 0x3f000000;
    uint32_t h = m < 0x38800000 ? subnormal : normal;
    h = m >= 0x477ff000 ? 0x7c00 : h;
    h = m > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)(u >> 16 & 0x8000) | (uint16_t)h;
}

ENCODE(f16) {
    (void)importance, (void)settings;
    for (size_t i = 0; i < rows * cols; i++) {
        uint16_t h = half_of(x[i]);
        memcpy(b + 2 * i, &h, 2);
    }
}

ENCODE(bf16) {
    (void)importance, (void)settings;
    for (size_t i = 0; i < rows * cols; i++) {
        uint32_t u = bits_of(x[i]);
        uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
        uint16_t h = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : rounded);
        memcpy(b + 2 * i, &h, 2);
    }
}

size_t LEVEL(first_not_finite)(const float *x, size_t n) {
    /* On the bits: no compiler option can take that test away. */
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 1024 ? n : i + 1024;
        uint32_t bad = 0;
        for (size_t j = i; j < end; j++) bad |= (bits_of(x[j]) & 0x7f800000) == 0x7f800000;
        if (bad)
            for (; i < end; i++)
                if ((bits_of(x[i]) & 0x7f800000) == 0x7f800000) return i;
        i = end;
    }
    return n;
}
