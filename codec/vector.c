#include "codec/vector.h"

size_t codec_vector_room(size_t cols) { return cols / 16 + cols / 32 + 1; }

codec_vector codec_vector_make(const float *x, size_t cols, float *room) {
    float *of16 = room, *of32 = room + cols / 16;
    for (size_t i = 0; i < cols / 16; i++) {
        float s[16];
        for (int k = 0; k < 16; k++) s[k] = x[16 * i + (size_t)k];
        for (int half = 8; half; half /= 2)
            for (int k = 0; k < half; k++) s[k] += s[k + half];
        of16[i] = s[0];
    }
    for (size_t i = 0; i < cols / 32; i++) of32[i] = of16[2 * i] + of16[2 * i + 1];
    return (codec_vector){x, of16, of32};
}
