/* Weights so small that binary16 has no fitting factors for them: whatever a type does then, its blocks must
 * not be farther from the weights than zeros are. The bytes are compared between ISA levels on the way. */
#include <math.h>

#include "tests/support/codecs.h"

enum { ROWS = 16, COLS = 512, N = ROWS * COLS, KINDS = 6 };
static float x[N], importance[COLS];

static const char *const kinds[KINDS] = {"normal",       "above zero",    "below zero",
                                         "all the same", "one and zeros", "256s of many sizes"};

static void fill_kind(int kind, float size) {
    fill_normal(x, N, size);
    for (size_t i = 0; i < N; i++) {
        if (kind == 1) x[i] = fabsf(x[i]);
        if (kind == 2) x[i] = -fabsf(x[i]);
        if (kind == 3) x[i] = i / COLS % 2 ? size : -size;
        if (kind == 4 && i % 32 != i / 32 % 32) x[i] = 0;
        if (kind == 5) x[i] = ldexpf(x[i], -(int)(i / 32 % 8));
    }
}

static void check_blocks(const tensor_type *type, const float *w, codec_effort effort, const char *kind,
                         double size) {
    float *y = through(type, x, ROWS, COLS, w, effort);
    for (size_t b = 0; b < N; b += type->block_elements) {
        double x2 = 0, e2 = 0;
        for (size_t i = b; i < b + type->block_elements; i++) {
            double weight = w ? (double)w[i % COLS] : 1, e = (double)x[i] - (double)y[i];
            x2 += weight * (double)x[i] * (double)x[i], e2 += weight * e * e;
        }
        if (!(e2 <= x2 * (1 + 1e-5)))
            fail_msg("%s, effort %s, importance %s, %s of size %g: block %zu has the error %g, zeros have %g",
                     type->name, effort_name(effort), w ? "on" : "off", kind, size, b / type->block_elements,
                     sqrt(e2), sqrt(x2));
    }
    free(y);
}

TEST(never_worse_than_zeros) {
    seed_random(1), fill_importance(importance, COLS);
    for (double size = 1e-12; size < 2e-4; size *= SANITIZED ? 22 : 2.2)
        for (int kind = 0; kind < KINDS; kind++) {
            fill_kind(kind, (float)size);
            EACH_ENCODER(type) EACH_EFFORT(effort) {
                check_blocks(type, NULL, effort, kinds[kind], size);
                check_blocks(type, importance, effort, kinds[kind], size);
            }
        }
}

int main(void) { return tests_run(NULL, NULL); }
