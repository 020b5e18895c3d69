#include "bench/reference_data.h"

#include <math.h>
#include <stdint.h>

/* xorshift64, with Marsaglia's shifts; the upper 53 bits as a fraction of 1. */
static double uniform_fraction(uint64_t *state) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-53;
}

/* Box and Muller. The addend keeps the logarithm finite and vanishes beside any other fraction. */
static double normal_number(uint64_t *state) {
    double length = sqrt(-2 * log(uniform_fraction(state) + 1e-300));
    return length * cos(6.283185307179586 * uniform_fraction(state));
}

void reference_data(float *weights, float *importance) {
    uint64_t state = 88172645463325252u;
    for (int r = 0; r < REFERENCE_ROWS; r++) {
        double deviation = 0.02 * exp(0.2 * normal_number(&state));
        for (int c = 0; c < REFERENCE_COLS; c++) {
            double value = normal_number(&state);
            if (uniform_fraction(&state) < 0.001) value *= 6;
            *weights++ = (float)(deviation * value);
        }
    }
    for (int c = 0; c < REFERENCE_COLS; c++) importance[c] = (float)exp(normal_number(&state));
}
