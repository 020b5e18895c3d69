#include "tests/support/numbers.h"

static uint64_t random_state = 0x9e3779b97f4a7c15;

void seed_random(uint64_t seed) { random_state = 0x9e3779b97f4a7c15 * (2 * seed + 1); }

uint64_t next_random(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state;
}

float random_uniform(void) { return (float)(int32_t)(next_random() >> 32) * 0x1p-31f; }

float random_normal(void) {
    /* A number uniform over -1 .. 1 has variance 1/3: twelve of them 4. */
    float sum = 0;
    for (int i = 0; i < 12; i++) sum += random_uniform();
    return 0.5f * sum;
}

void fill_normal(float *x, size_t n, float deviation) {
    for (size_t i = 0; i < n; i++) x[i] = deviation * random_normal();
}

void fill_importance(float *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        int power = (int)(2 * random_normal());
        float size = 1 + 0.5f * (1 + random_uniform());
        w[i] = power < 0 ? size / (float)(1 << -power) : size * (float)(1 << power);
    }
}
