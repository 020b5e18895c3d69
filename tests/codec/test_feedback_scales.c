/* Rounding with error feedback: trials of scales leave less, in the pass and in the outputs. */
#include <math.h>

#include "base/memory.h"
#include "study/inputs/inputs.h"
#include "tests/support/codecs.h"

enum { N = 512, ROWS = 48, TOKENS = 300 };

/* Inputs: some features count much more than others, and all go together a little. */
typedef struct site {
    float y[N * TOKENS], w[ROWS * N];
} site;
static site *s;

FIXTURE(make_site) {
    static float mixed[8 * TOKENS];
    s = calloc(1, sizeof *s);
    assert_non_null(s);
    seed_random(11);
    fill_normal(mixed, 8 * TOKENS, 1), fill_normal(s->w, ROWS * N, 0.05f);
    for (size_t c = 0; c < N; c++) {
        float by[8], own[TOKENS], size;
        fill_normal(by, 8, 0.5f), fill_normal(own, TOKENS, 1), fill_normal(&size, 1, 1);
        for (size_t t = 0; t < TOKENS; t++) {
            float sum = own[t];
            for (size_t i = 0; i < 8; i++) sum += by[i] * mixed[i * TOKENS + t];
            s->y[c * TOKENS + t] = expf(size) * sum;
        }
    }
    return 0;
}

FIXTURE(free_site) {
    free(s);
    return 0;
}

static cholesky factored(void) {
    gq_error e;
    cholesky f;
    hessian *m = hessian_new(kernels_select(), (hessian_shape){N, N, false, 0, 0, MATMUL_FLOAT32}, NULL, &e);
    assert_non_null(m);
    hessian_add(m, NULL, TOKENS, s->y, TOKENS, TOKENS);
    assert_true(cholesky_factor(m, HESSIAN_DEFAULT, &f, &e));
    assert_int_equal(f.n_runs, 1);
    hessian_free(m);
    return f;
}

/* Rounds all rows; q: what will be read. */
static feedback_sums rounded(uint32_t type, const cholesky *f, int trials, float *q) {
    static uint8_t blocks[ROWS * N * 4];
    const kernels *k = kernels_select();
    feedback_sums sums = {0};
    feedback_task t = {.kernels = k,
                       .type = type,
                       .effort = EFFORT_FAST,
                       .hessian = f->runs,
                       .n_hessians = 1,
                       .columns = N,
                       .scratch = memory_lines(1, feedback_bytes(k, type, N, MATMUL_FLOAT32), NULL),
                       .matrix_rows = ROWS,
                       .trials = trials};
    assert_non_null(t.scratch);
    codec_feedback(&t, s->w, ROWS, blocks, &sums);
    k->codecs[type].decode(blocks, 0, q, ROWS * N);
    free(t.scratch);
    return sums;
}

/* The squared error of the rows' outputs over these. */
static double error_of_outputs(const float *q) {
    double power = 0, left = 0;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = 0; t < TOKENS; t++) {
            double wy = 0, qy = 0;
            for (size_t c = 0; c < N; c++) {
                double y = (double)s->y[c * TOKENS + t];
                wy += (double)s->w[r * N + c] * y, qy += (double)q[r * N + c] * y;
            }
            power += wy * wy, left += (wy - qy) * (wy - qy);
        }
    return left / power;
}

TEST(trials_leave_less) {
    static const uint32_t types[] = {GGUF_Q2_K, GGUF_Q4_K, GGUF_Q6_K, GGUF_Q4_0, GGUF_IQ2_XS, GGUF_NVFP4};
    static float q[ROWS * N];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        cholesky f = factored();
        double error[3], output[3];
        for (size_t k = 0; k < 3; k++) {
            error[k] = rounded(types[i], &f, (int[]){0, 2, 8}[k], q).error;
            output[k] = error_of_outputs(q);
        }
        if (!(error[1] < 0.99 * error[0]) || !(error[2] <= error[1]) || !(output[2] < output[0]))
            fail_msg("%s: %g, %g, %g; of outputs %g, %g, %g", tensor_type_of(types[i])->name, error[0],
                     error[1], error[2], output[0], output[1], output[2]);
        cholesky_free(&f);
    }
}

int main(void) { return tests_run(make_site, free_site); }
