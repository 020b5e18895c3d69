/* Rows encoded by the Hessian of their inputs: against sums in double precision, and plain encoding. */
#include <math.h>
#include <sys/wait.h>

#include "tests/support/codecs.h"
#include "tests/support/plans.h"

enum { ROWS = 70, COLS = 768, N = ROWS * COLS, INPUTS = 1000, COMMON = 24 };

static float *x, *h, *diagonal;

/* Inputs that have much in common, and columns of different size. */
FIXTURE(make_arrays) {
    float *y = malloc(sizeof *y * COLS * INPUTS), *by = malloc(sizeof *by * COLS * COMMON), common[COMMON];
    x = malloc(sizeof *x * N), h = malloc(sizeof *h * COLS * COLS), diagonal = malloc(sizeof *h * COLS);
    seed_random(15), fill_normal(x, N, 0.05f), fill_normal(by, COLS * COMMON, 0.3f);
    for (size_t t = 0; t < INPUTS; t++) {
        fill_normal(common, COMMON, 1);
        for (size_t c = 0; c < COLS; c++) {
            float sum = 0.5f * random_normal();
            for (size_t i = 0; i < COMMON; i++) sum += by[c * COMMON + i] * common[i];
            y[c * INPUTS + t] = sum * (0.2f + (float)(c % 7));
        }
    }
    for (size_t i = 0; i < COLS; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t t = 0; t < INPUTS; t++) sum += (double)y[i * INPUTS + t] * (double)y[j * INPUTS + t];
            h[i * COLS + j] = h[j * COLS + i] = (float)(sum / INPUTS);
        }
    for (size_t i = 0; i < COLS; i++) diagonal[i] = h[i * COLS + i];
    free(y), free(by);
    return 0;
}

FIXTURE(free_arrays) {
    free(x), free(h), free(diagonal);
    return 0;
}

static float *copy_of_moments(void) {
    return memcpy(malloc(sizeof *h * COLS * COLS), h, sizeof *h * COLS * COLS);
}

static uint8_t *encoded(uint32_t type, size_t first, size_t rows, const gq_array_options *o, gq_loss *loss) {
    gq_error e;
    size_t bytes;
    if (!gq_array_bytes(type, rows, COLS, &bytes, &e)) fail_msg("%s", e.text);
    uint8_t *to = malloc(bytes);
    if (!gq_encode(type, rows, COLS, x + first * COLS, o, to, bytes, loss, &e)) fail_msg("%s", e.text);
    return to;
}

static size_t row_bytes(uint32_t type) { return COLS / gq_type_elements(type) * gq_type_bytes(type); }

/* v H v^T of what blocks have lost of each row; their sum. */
static double lost(uint32_t type, const uint8_t *blocks, double *of_row) {
    gq_error e;
    float *decoded = malloc(sizeof *decoded * N);
    double all = 0, v[COLS];
    assert_true(gq_decode(type, ROWS, COLS, blocks, ROWS * row_bytes(type), decoded, 2, &e));
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t c = 0; c < COLS; c++) v[c] = (double)x[r * COLS + c] - (double)decoded[r * COLS + c];
        of_row[r] = 0;
        for (size_t i = 0; i < COLS; i++) {
            double sum = 0;
            for (size_t j = 0; j < COLS; j++) sum += (double)h[i * COLS + j] * v[j];
            of_row[r] += v[i] * sum;
        }
        all += of_row[r];
    }
    free(decoded);
    return all;
}

/* ---- what it brings ---- */

TEST(rows_lose_less) {
    static const char *const types[] = {"Q2_K", "Q3_K",   "Q4_K",  "Q6_K", "Q4_0",
                                        "Q5_1", "IQ4_XS", "IQ3_S", "MXFP4"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t type = (uint32_t)gq_type_find(types[i]);
        double by_search[ROWS], by_moments[ROWS];
        gq_loss loss;
        gq_array_options o = {.size = sizeof o, .importance = diagonal, .threads = 2};
        uint8_t *plain = encoded(type, 0, ROWS, &o, NULL);
        o.importance = NULL, o.hessian = h;
        uint8_t *fed = encoded(type, 0, ROWS, &o, &loss);
        double before = lost(type, plain, by_search), after = lost(type, fed, by_moments);
        if (!(after < 0.6 * before)) fail_msg("%s: %g, %g plain", types[i], after, before);
        for (size_t r = 0; r < ROWS; r++) assert_true(by_moments[r] <= by_search[r] * (1 + 1e-5));
        assert_true(fabs(loss.we2 - after) < 1e-4 * after);
        assert_true(loss.n == N && loss.e2 > 0 && loss.wx2 > loss.we2);
        free(plain), free(fed);
    }
}

/* Where columns have nothing in common there is nothing to compensate: plain encoding's result, or better by
 * what blocks gain from being scaled together. */
TEST(columns_with_nothing_in_common) {
    float *alone = calloc(COLS * COLS, sizeof *alone);
    for (size_t c = 0; c < COLS; c++) alone[c * COLS + c] = diagonal[c];
    for (uint32_t type = GGUF_Q4_0; type <= GGUF_Q4_K; type += GGUF_Q4_K - GGUF_Q4_0) {
        gq_loss plain, loss;
        gq_array_options o = {.size = sizeof o, .importance = diagonal};
        uint8_t *blocks = encoded(type, 0, ROWS, &o, &plain);
        o.importance = NULL, o.hessian = alone;
        uint8_t *fed = encoded(type, 0, ROWS, &o, &loss);
        assert_true(fabs(loss.wx2 - plain.wx2) <= 1e-5 * plain.wx2);
        assert_true(loss.we2 <= plain.we2 * (1 + 1e-5) && loss.we2 > 0.97 * plain.we2);
        o.damp = -1; /* then the pass sees the same weights */
        free(fed), fed = encoded(type, 0, ROWS, &o, &loss);
        assert_true(fabs(loss.we2 - plain.we2) <= 1e-3 * plain.we2);
        free(blocks), free(fed);
    }
    free(alone);
}

/* Of columns that no input reaches any code is as good. */
TEST(no_inputs) {
    gq_loss loss;
    float *none = calloc(COLS * COLS, sizeof *none);
    const gq_array_options o = {.size = sizeof o, .hessian = none};
    free(encoded(GGUF_Q4_K, 0, ROWS, &o, &loss));
    assert_true(loss.wx2 == 0 && loss.we2 == 0 && loss.e2 > 0 && isfinite(loss.e2));
    free(none);
}

TEST(effort_and_settings) {
    static const gq_array_options ways[] = {{.effort = GQ_EFFORT_DEFAULT, .damp = 0.3f},
                                            {.effort = GQ_EFFORT_BEST, .damp = 0.3f},
                                            {.effort = GQ_EFFORT_BEST},
                                            {.effort = GQ_EFFORT_BEST, .shrink = 0.05f}};
    double we2[4];
    for (size_t i = 0; i < 4; i++) {
        gq_loss loss;
        gq_array_options o = ways[i];
        o.size = sizeof o, o.hessian = h;
        free(encoded(GGUF_Q3_K, 0, ROWS, &o, &loss));
        we2[i] = loss.we2;
    }
    assert_true(we2[1] < we2[0] && we2[2] < we2[1] && we2[3] < we2[2]);
}

/* ---- what it does not depend on ---- */

TEST(threads_and_company) {
    static const uint32_t types[] = {GGUF_Q4_0, GGUF_Q8_0, GGUF_Q2_K, GGUF_Q5_K};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        gq_loss first, loss;
        gq_array_options o = {.size = sizeof o, .hessian = h, .threads = 1};
        uint8_t *one = encoded(types[i], 0, ROWS, &o, &first);
        o.threads = 5;
        uint8_t *more = encoded(types[i], 0, ROWS, &o, &loss);
        assert_memory_equal(more, one, ROWS * row_bytes(types[i]));
        assert_memory_equal(&loss, &first, sizeof loss);
        uint8_t *part = encoded(types[i], 61, 7, &o, NULL);
        assert_memory_equal(part, one + 61 * row_bytes(types[i]), 7 * row_bytes(types[i]));
        free(one), free(more), free(part);
    }
}

/* Only ratios within a Hessian count. */
TEST(unit_of_inputs) {
    float *other = copy_of_moments();
    gq_array_options o = {.size = sizeof o, .hessian = h};
    uint8_t *as_is = encoded(GGUF_Q4_K, 0, ROWS, &o, NULL);
    o.hessian = other;
    for (int power = -40; power <= 40; power += 80) {
        for (size_t i = 0; i < COLS * COLS; i++) other[i] = ldexpf(h[i], power);
        uint8_t *scaled = encoded(GGUF_Q4_K, 0, ROWS, &o, NULL);
        assert_memory_equal(scaled, as_is, ROWS * row_bytes(GGUF_Q4_K));
        free(scaled);
    }
    free(as_is), free(other);
}

/* Programs from before there were Hessians go on. */
TEST(older_options) {
    gq_array_options o = {.size = offsetof(gq_array_options, hessian), .hessian = h};
    uint8_t *older = encoded(GGUF_Q4_K, 0, ROWS, &o, NULL), *plain = encoded(GGUF_Q4_K, 0, ROWS, NULL, NULL);
    assert_memory_equal(older, plain, ROWS * row_bytes(GGUF_Q4_K));
    free(older), free(plain);
}

TEST(after_a_fork) {
    const gq_array_options o = {.size = sizeof o, .hessian = h, .threads = 3};
    uint8_t *here = encoded(GGUF_Q4_0, 0, ROWS, &o, NULL);
    int status = 1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60); /* it would wait for threads that only the parent has */
        uint8_t *there = encoded(GGUF_Q4_0, 0, ROWS, &o, NULL);
        _exit(memcmp(there, here, ROWS * row_bytes(GGUF_Q4_0)) ? 1 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    free(here);
}

/* ---- what is refused ---- */

static void refused(uint32_t type, const gq_array_options *o, gq_status status, const char *says) {
    gq_error e;
    static uint8_t to[4 * COLS];
    bool done = gq_encode(type, 1, COLS, x, o, to, row_bytes(type), NULL, &e);
    if (done || e.status != status || !strstr(e.text, says))
        fail_msg("'%s', expected '%s'", done ? "done" : e.text, says);
}

static void set_pair(float *m, size_t i, size_t j, float here, float across) {
    m[i * COLS + j] = here, m[j * COLS + i] = across;
}

TEST(moments_that_are_none) {
    const struct {
        size_t i, j;
        float here, across;
        const char *says;
    } bad[] = {
        {5, 5, -1, -1, "column 5 is -1"},
        {5, 5, NAN, NAN, "column 5 is nan"},
        {767, 767, INFINITY, INFINITY, "column 767 is inf"},
        {700, 3, NAN, NAN, "[700][3] is nan"},
        {700, 3, 0.001f, NAN, "at [3][700], nan"},
        {700, 3, 0.5f, -0.5f, "0.5; expected the value at [3][700], -0.5"},
        {66, 65, 1e6f, 1e6f, "[66][65] is 1e+06; expected the value at [65][66], 1e+06, and at most"},
        {66, 65, INFINITY, INFINITY, "[66][65] is inf"},
    };
    float *m = copy_of_moments();
    gq_array_options o = {.size = sizeof o, .hessian = m};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        set_pair(m, bad[i].i, bad[i].j, bad[i].here, bad[i].across);
        refused(GGUF_Q4_0, &o, GQ_USAGE, bad[i].says);
        set_pair(m, bad[i].i, bad[i].j, h[bad[i].i * COLS + bad[i].j], h[bad[i].j * COLS + bad[i].i]);
    }
    for (size_t i = 0; i < COLS * COLS; i++) m[i] = i % (COLS + 1) ? -0.9f : 1;
    refused(GGUF_Q4_0, &o, GQ_USAGE, "no Cholesky factor");
    gq_error e;
    refused(GGUF_Q4_0, &(gq_array_options){.size = sizeof o, .hessian = h, .damp = 2}, GQ_USAGE,
            "damping of 2");
    assert_false(gq_encode(GGUF_Q4_0, 0, UINT64_C(1) << 40, NULL, &o, NULL, 0, NULL, &e));
    assert_non_null(strstr(e.text, "more than memory can hold"));
    free(m);
}

static bool stop(void *user) {
    (void)user;
    return true;
}

TEST(what_does_not_go_together) {
    gq_array_options o = {.size = sizeof o, .hessian = h, .importance = diagonal};
    refused(GGUF_Q4_0, &o, GQ_USAGE, "not both");
    o.importance = NULL;
    refused(GGUF_F16, &o, GQ_USAGE, "F16 stores each weight separately");
    refused(GGUF_Q8_K, &o, GQ_USAGE, "no encoder for Q8_K");
    o.callbacks = &(gq_callbacks){.size = sizeof *o.callbacks, .cancelled = stop};
    refused(GGUF_Q4_0, &o, GQ_INTERRUPTED, "");
    float kept = x[9];
    o.callbacks = NULL, x[9] = NAN;
    refused(GGUF_Q4_0, &o, GQ_BAD_WEIGHTS, "row 0, column 9 is nan");
    x[9] = 1e30f;
    refused(GGUF_Q4_0, &o, GQ_BAD_WEIGHTS, "column 9 is 1e+30");
    x[9] = kept;
}

int main(void) { return tests_run(make_arrays, free_arrays); }
