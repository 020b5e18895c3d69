/* What holds for every encoder, at every effort, with and without importance, on rows of every kind. The
 * bytes are compared between ISA levels on the way (encode_everywhere). */
#include <float.h>
#include <math.h>

#include "tests/support/codecs.h"

enum { ROWS = 16, COLS = 512, N = ROWS * COLS };
static float x[N], importance[COLS];

/* x through one type, for each effort, without and with importance:
 *     for (result r = {0}; next_result(type, &r);) ... */
typedef struct result {
    int n;
    codec_effort effort;
    const float *w; /* importance, or NULL */
    float *y;
} result;

static bool next_result(const tensor_type *type, result *r) {
    free(r->y);
    if (r->n == 2 * (EFFORT_BEST + 1)) return false;
    r->effort = (codec_effort)(r->n / 2), r->w = r->n % 2 ? importance : NULL, r->n++;
    r->y = through(type, x, ROWS, COLS, r->w, r->effort);
    return true;
}

static void fail_at(const tensor_type *type, const result *r, const char *rows, double found,
                    double allowed) {
    fail_msg("%s, effort %s, importance %s, %s: error %g, allowed %g", type->name, effort_name(r->effort),
             r->w ? "on" : "off", rows, found, allowed);
}

static void check(const tensor_type *type, const result *r, double allowed, const char *rows) {
    double error = relative_error(x, r->y, ROWS, COLS, r->w);
    if (!(error <= allowed)) fail_at(type, r, rows, error, allowed);
}

/* Every type by one column of its bounds. */
static void check_all(size_t column, const char *rows) {
    EACH_ENCODER(type) {
        float allowed;
        memcpy(&allowed, (const char *)known_of(type->id) + column, sizeof allowed);
        for (result r = {0}; next_result(type, &r);) check(type, &r, (double)allowed, rows);
    }
}

TEST(normal_rows) {
    for (int power = -2; power <= 4; power += 3) {
        seed_random(1), fill_normal(x, N, ldexpf(1, power));
        check_all(offsetof(codec_known, normal), "normal rows");
    }
}

TEST(uniform_rows) {
    seed_random(2);
    for (size_t i = 0; i < N; i++) x[i] = random_uniform();
    check_all(offsetof(codec_known, uniform), "uniform rows");
    for (size_t i = 0; i < N; i++) x[i] = i / COLS % 2 ? fabsf(x[i]) : -fabsf(x[i]);
    check_all(offsetof(codec_known, uniform), "uniform rows of one sign");
}

TEST(constant_rows) {
    seed_random(3);
    for (size_t row = 0; row < ROWS; row++) {
        float value = row == 0 ? 1 : row == 1 ? -1 : random_normal();
        for (size_t c = 0; c < COLS; c++) x[row * COLS + c] = value;
    }
    check_all(offsetof(codec_known, constant), "constants");
}

TEST(one_weight_among_zeros) {
    seed_random(4);
    memset(x, 0, sizeof x);
    for (size_t row = 0; row < ROWS; row++)
        x[row * COLS + next_random() % COLS] = row == 0 ? 1 : random_normal();
    check_all(offsetof(codec_known, alone), "one weight among zeros");
}

TEST(zeros_stay_zeros) {
    for (int kind = 0; kind < 4; kind++) {
        /* Plus zeros, minus zeros, both, and rows of zeros between others. */
        seed_random(5), fill_normal(x, N, 1);
        for (size_t i = 0; i < N; i++)
            if (kind < 3 || i / COLS % 2) x[i] = kind == 1 || (kind == 2 && i % 3) ? -0.0f : 0.0f;
        EACH_ENCODER(type)
        for (result r = {0}; next_result(type, &r);)
            for (size_t i = 0; i < N; i++)
                if ((kind < 3 || i / COLS % 2) && r.y[i] != 0) fail_at(type, &r, "zeros", (double)r.y[i], 0);
    }
}

/* The outlier survives, and the blocks beside its own do not notice. */
TEST(one_outlier) {
    seed_random(6), fill_normal(x, N, 1);
    for (size_t row = 0; row < ROWS; row++) x[row * COLS + 7] = row % 2 ? 1000 : -1000;
    EACH_ENCODER(type) for (result r = {0}; next_result(type, &r);) {
        double kept = 0, e2 = 0, x2 = 0;
        for (size_t i = 0; i < N; i++) {
            double w = r.w ? (double)r.w[i % COLS] : 1, e = (double)x[i] - (double)r.y[i];
            if (i % COLS == 7) kept = fmax(kept, fabs(e));
            if (i % COLS >= COLS / 2) e2 += w * e * e, x2 += w * (double)x[i] * (double)x[i];
        }
        /* No grid holds all combinations of small and large weights. */
        double most = known_of(type->id)->alone > 1 ? 700 : known_of(type->id)->alone > 0.3f ? 350 : 280;
        if (type->id != GGUF_Q1_0 && !(kept <= most)) fail_at(type, &r, "an outlier of 1000", kept, most);
        double allowed = (double)known_of(type->id)->normal * 1.1;
        if (!(sqrt(e2 / x2) <= allowed))
            fail_at(type, &r, "blocks beside an outlier's", sqrt(e2 / x2), allowed);
    }
}

/* Below what factors of binary16 can hold, weights become zeros or the smallest number there is, never
 * garbage. */
TEST(tiny_rows) {
    static const float sizes[] = {1e-4f, 1e-5f, 1e-6f, 1e-7f, 1e-8f, 1e-20f, 1e-37f, 1e-40f, 0x1p-149f};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double x2 = 0;
        seed_random(7);
        for (size_t i = 0; i < N; i++) {
            /* Of the smallest number there are only multiples. */
            x[i] = sizes[s] * (s == 8 ? (float)(int)(3 * random_uniform()) : random_normal());
            x2 += (double)x[i] * (double)x[i];
        }
        EACH_ENCODER(type) for (result r = {0}; next_result(type, &r);) {
            double e2 = 0;
            for (size_t i = 0; i < N; i++)
                e2 += ((double)x[i] - (double)r.y[i]) * ((double)x[i] - (double)r.y[i]);
            /* Not measured under importance, the columns without any may lose more. */
            double allowed = sqrt(x2 / N) * (r.w ? 1.5 : 1.1) + 0x1p-23;
            if (!(sqrt(e2 / N) <= allowed)) fail_at(type, &r, "tiny weights", sqrt(e2 / N), allowed);
        }
    }
}

/* Beyond what a type can hold (callers refuse such weights) blocks stay legal. */
TEST(huge_rows) {
    static const float sizes[] = {1e10f, 1e30f, FLT_MAX / 8};
    for (int s = 0; s < 3; s++) {
        seed_random(8), fill_normal(x, N, sizes[s]);
        x[0] = FLT_MAX, x[1] = -FLT_MAX;
        EACH_ENCODER(type)
        if (type->quantized)
            for (result r = {0}; next_result(type, &r);) assert_true(all_finite(r.y, N));
    }
}

/* What a codec says it can hold it does hold. */
TEST(largest_magnitude) {
    EACH_ENCODER(type) for (int kind = 0; kind < 4; kind++) {
        static const char *const kinds[] = {"largest uniform", "largest constants",
                                            "largest weight among zeros", "largest of both signs"};
        float top = kernels_select()->codecs[type->id].max_magnitude;
        assert_true(top > 0);
        if (isinf(top)) top = FLT_MAX;
        /* Codes reach one step less far on one side: up to a quarter of the largest weight is cut there.
         * Grids lack entries of a large weight among small ones. */
        float alone = known_of(type->id)->alone, cut = alone > 1 ? 0.7f : alone > 0.3f ? 0.45f : 0.3f;
        seed_random(9);
        for (size_t i = 0; i < N; i++) {
            float sign = i / COLS % 2 ? -1 : 1;
            bool set = kind == 1 || (kind == 2 && i % COLS == 9) || kind == 3;
            if (kind == 3) sign = i % 2 ? -1 : 1;
            x[i] = kind == 0 ? top * random_uniform() : set ? sign * top : 0;
        }
        for (result r = {0}; next_result(type, &r);) {
            if (kind == 0) check(type, &r, 1.1 * (double)known_of(type->id)->uniform, kinds[kind]);
            for (size_t i = 0; i < N; i++)
                if (fabsf(x[i]) == top && !(fabsf(r.y[i] - x[i]) <= cut * top) &&
                    (kind < 2 || type->id != GGUF_Q1_0))
                    fail_at(type, &r, kinds[kind], (double)r.y[i], (double)x[i]);
            assert_true(all_finite(r.y, N));
        }
    }
}

TEST(more_effort_is_never_worse) {
    seed_random(10), fill_normal(x, N, 1);
    EACH_ENCODER(type) {
        double before[2] = {INFINITY, INFINITY};
        for (result r = {0}; next_result(type, &r);) {
            double error = relative_error(x, r.y, ROWS, COLS, r.w), *last = &before[r.w != NULL];
            /* The encoder minimises something close to this error, not it itself. */
            if (!(error <= *last * 1.005)) fail_at(type, &r, "compared with less effort", error, *last);
            *last = error;
        }
    }
}

FIXTURE(set_up) {
    seed_random(0), fill_importance(importance, COLS);
    return 0;
}

int main(void) { return tests_run(set_up, NULL); }
