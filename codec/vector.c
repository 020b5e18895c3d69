#include "codec/vector.h"

#include <math.h>

size_t codec_vector_floats(size_t cols) { return cols / 2 + 2 * (cols / 16) + 2 * (cols / 32) + 1; }

/* 32 columns in steps of which the largest is 32767. */
static float round_columns(const float *x, int16_t *fixed) {
    float most = 0;
    for (int k = 0; k < 32; k++) most = fmaxf(most, fabsf(x[k]));
    const double per_step = most > 0 ? 32767 / (double)most : 0;
    for (int k = 0; k < 32; k++) fixed[k] = (int16_t)lrint((double)x[k] * per_step);
    return most / 32767;
}

static float sum_of_16(const float *x) {
    float s[16];
    for (int k = 0; k < 16; k++) s[k] = x[k];
    for (int half = 8; half; half /= 2)
        for (int k = 0; k < half; k++) s[k] += s[k + half];
    return s[0];
}

codec_vector codec_vector_make(const float *x, size_t cols, float *scratch) {
    const size_t n16 = cols / 16, n32 = cols / 32;
    float *of16 = scratch, *of32 = of16 + n16, *step16 = of32 + n32, *step32 = step16 + n16;
    int16_t *fixed = (void *)(step32 + n32);
    for (size_t i = 0; i < n16; i++) of16[i] = sum_of_16(x + 16 * i);
    for (size_t i = 0; i < n32; i++) {
        of32[i] = of16[2 * i] + of16[2 * i + 1];
        step32[i] = step16[2 * i] = step16[2 * i + 1] = round_columns(x + 32 * i, fixed + 32 * i);
    }
    return (codec_vector){x, fixed, step16, step32, of16, of32};
}
