#include "codec/codec.h"

void codec_sums(const float *x, size_t cols, float *sums) {
    float *of32 = sums + cols / 16;
    for (size_t i = 0; i < cols / 16; i++) {
        float s[16];
        for (int k = 0; k < 16; k++) s[k] = x[16 * i + (size_t)k];
        for (int half = 8; half; half /= 2)
            for (int k = 0; k < half; k++) s[k] += s[k + half];
        sums[i] = s[0];
    }
    for (size_t i = 0; i < cols / 32; i++) of32[i] = sums[2 * i] + sums[2 * i + 1];
}
