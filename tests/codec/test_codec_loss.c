/* Error sums are those of the weights and of what the file decodes to, whatever their size: float32 squares
 * neither the smallest nor the largest weights. */
#include <math.h>

#include "tests/support/codecs.h"

enum { ROWS = 6, COLS = 768, N = ROWS * COLS };
static float x[N], importance[COLS];

typedef struct sums {
    double x2, e2, wx2, we2, max_e;
} sums;

static sums in_double(const float *y, const float *w) {
    sums s = {0};
    for (size_t i = 0; i < N; i++) {
        double a = (double)x[i], e = a - (double)y[i], weight = w ? (double)w[i % COLS] : 1;
        s.x2 += a * a, s.e2 += e * e, s.wx2 += weight * a * a, s.we2 += weight * e * e;
        s.max_e = fmax(s.max_e, fabs(e));
    }
    return s;
}

static void check(const char *what, double found, double expected, const char *type, double size) {
    /* The report's figures are roots of these. */
    if (!(fabs(sqrt(found) - sqrt(expected)) <= 1e-6 * sqrt(expected)))
        fail_msg("%s of weights around %g: %s is %.9g, expected %.9g", type, size, what, found, expected);
}

static void check_measure(const char *type, const float *y, const float *w, double size) {
    sums s = in_double(y, w);
    codec_error first = {0};
    kernels_select()->measure(x, y, ROWS, COLS, w, &first);
    check("sum x^2", first.x2, s.x2, type, size), check("sum e^2", first.e2, s.e2, type, size);
    check("weighted sum x^2", first.wx2, s.wx2, type, size);
    check("weighted sum e^2", first.we2, s.we2, type, size);
    check("largest e, squared,", (double)first.max_e * (double)first.max_e, s.max_e * s.max_e, type, size);
    EACH_LEVEL(k) {
        codec_error again = {0};
        k->measure(x, y, ROWS, COLS, w, &again);
        assert_memory_equal(&again, &first, sizeof first);
    }
}

TEST(every_magnitude_of_every_type) {
    EACH_ENCODER(type) for (int power = -44; power <= 37; power++) {
        double size = pow(10, power);
        seed_random((uint64_t)(power + 50)), fill_normal(x, N, (float)size);
        double most = (double)kernels_select()->codecs[type->id].max_magnitude;
        bool fits = true;
        for (size_t i = 0; i < N; i++) fits &= fabs((double)x[i]) <= most;
        for (int on = 0; fits && on < 2; on++) {
            float *y = through(type, x, ROWS, COLS, on ? importance : NULL, EFFORT_FAST);
            check_measure(type->name, y, on ? importance : NULL, size);
            free(y);
        }
    }
}

/* Errors far below the weights, sizes that change within a row, importance of any size. */
TEST(mixtures) {
    static float y[N], w[COLS];
    for (int power = -120; power <= 120; power += 5)
        for (int kind = 0; kind < 4; kind++) {
            seed_random((uint64_t)(power + 200)), fill_normal(x, N, 1);
            for (size_t c = 0; c < COLS; c++) w[c] = kind == 0 ? importance[c] : ldexpf(importance[c], power);
            for (size_t i = 0; i < N; i++) {
                if (kind == 1) x[i] = ldexpf(x[i], power);
                if (kind == 2 && i / 64 % 2) x[i] = ldexpf(x[i], power);
                y[i] = kind == 3 ? x[i] : kind == 2 ? 0 : x[i] + x[i] * 0x1p-9f * random_uniform();
            }
            check_measure("a mixture", y, w, ldexp(1, power));
            check_measure("a mixture without importance", y, NULL, ldexp(1, power));
        }
}

FIXTURE(set_up) {
    seed_random(1), fill_importance(importance, COLS);
    return 0;
}

int main(void) { return tests_run(set_up, NULL); }
