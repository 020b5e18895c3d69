/* Rounding with error feedback, of weights so small, or columns so empty, that little is left to round. */
#include <math.h>

#include "base/memory.h"
#include "codec/feedback.h"
#include "tests/support/codecs.h"

enum { N = 512, ROWS = 20 };
static float normal[ROWS * N];

/* Rows as they are: without inputs in common nothing moves them. */
static feedback_sums run_apart(uint32_t type, const float *w, size_t rows, float *decoded) {
    static float identity[3 * 256 * 256];
    static uint8_t blocks[ROWS * N * 4];
    const kernels *k = kernels_select();
    feedback_hessian m = {.columns = N, .cholesky = identity};
    feedback_task t = {k, type, EFFORT_FAST, 0, &m, 1, N, NULL, 0, 0, NULL, NULL, 0, NULL, NULL, NULL};
    feedback_sums sums = {0};
    size_t row_bytes = gguf_row_bytes(tensor_type_of(type), N);
    for (size_t c = 0; c < N; c++) identity[feedback_triangle(c / 256) + c * 256 + c % 256] = 1;
    t.scratch = memory_lines(1, feedback_bytes(k, type, N, MATMUL_FLOAT32), NULL);
    codec_feedback(&t, w, rows, blocks, &sums);
    for (size_t r = 0; r < rows; r++) k->codecs[type].decode(blocks + r * row_bytes, 0, decoded + r * N, N);
    free(t.scratch);
    return sums;
}

/* Binary16 cannot hold their factors: zeros are nearer than what it can. */
TEST(tiny_weights_are_no_farther_than_zeros) {
    static float w[ROWS * N], q[ROWS * N];
    EACH_ENCODER(type) {
        if (!type->quantized) continue;
        for (size_t i = 0; i < ROWS * N; i++) {
            float unit = i / N % 4 == 3 ? 1e-30f : 1e-9f * (float)(1 << 2 * (i / N % 10));
            w[i] = (i / N < 10 || i % N >= 256 ? unit : 0.05f) * normal[i];
        }
        run_apart(type->id, w, ROWS, q);
        for (size_t r = 0; r < ROWS; r++) {
            double error = 0, zeros = 0;
            for (size_t i = r * N + 256; i < (r + 1) * N; i++) {
                double x = (double)w[i], y = (double)q[i];
                error += (x - y) * (x - y), zeros += x * x;
            }
            if (!(error <= zeros * 1.05))
                fail_msg("%s, row %zu: error %g, of zeros %g", type->name, r, error, zeros);
        }
    }
}

/* Rows and columns of nothing: no feedback, no number that is none. */
TEST(zeros_stay_zeros) {
    static float w[3 * N], q[3 * N];
    for (size_t c = 0; c < N; c++) w[N + c] = c < 256 ? 0 : normal[c], w[2 * N + c] = 0;
    EACH_ENCODER(type) {
        if (!type->quantized) continue;
        feedback_sums sums = run_apart(type->id, w, 3, q);
        assert_true(sums.power > 0 && isfinite(sums.error));
        for (size_t c = 0; c < 3 * N; c++) {
            bool zero = c < N + 256 || c >= 2 * N;
            bool held = !zero || q[c] == 0;
            if (!isfinite(q[c]) || !held) fail_msg("%s: weight %zu is %g", type->name, c, (double)q[c]);
        }
    }
}

int main(void) {
    seed_random(7), fill_normal(normal, ROWS * N, 0.05f);
    return tests_run(NULL, NULL);
}
