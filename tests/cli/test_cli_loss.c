/* What reports say of weights that float32 cannot square, and of weights that a type cannot hold. */
#include <math.h>

#include "tests/support/command.h"
#include "tests/support/folder.h"

enum { N = 256 * 8 };
static const struct {
    const char *name;
    float size;
} tensors[] = {{"blk.0.attn_q.weight", 1e-24f},
               {"blk.0.attn_v.weight", 1e-34f},
               {"blk.0.ffn_up.weight", 1e19f},
               {"blk.0.ffn_down.weight", 1e30f}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static void make(const char *path, size_t n_tensors) {
    model *m = model_new("llama", 1);
    for (size_t i = 0; i < n_tensors; i++) {
        float *x = random_values(N, i + 1);
        for (size_t k = 0; k < N; k++) x[k] *= tensors[i].size;
        model_add(m, tensors[i].name, GGUF_F32, (const uint64_t[4]){256, N / 256}, x);
        free(x);
    }
    model_save(m, path);
}

static double error_between(const char *a, const char *b, const char *name) {
    model_source models[2] = {open_model(a), open_model(b)};
    uint64_t n;
    float *x = tensor_values(&models[0], name, &n), *y = tensor_values(&models[1], name, &n);
    double x2 = 0, e2 = 0;
    for (uint64_t i = 0; i < n; i++) {
        double e = (double)x[i] - (double)y[i];
        x2 += (double)x[i] * (double)x[i], e2 += e * e;
    }
    free(x), free(y);
    model_close(&models[0]), model_close(&models[1]);
    return sqrt(e2 / x2);
}

static void check_text(const char *const *words) {
    char *text, *err;
    assert_int_equal(run_command(words, &text, &err), 0);
    if (strstr(text, "exact") || strstr(text, "inf") || strstr(text, "nan"))
        fail_msg("a report with figures that cannot be: %s", text);
    free(text), free(err);
}

/* Nearly the same relative error at any size, for a type that has float32's exponents. */
TEST(test_any_size) {
    const char *in = in_folder(folder, "any.gguf"), *out = in_folder(folder, "any-BF16.gguf");
    const char *path = in_folder(folder, "any.json");
    make(in, TENSORS);
    check_text((const char *const[]){NULL, "--report", path, in, out, "BF16", NULL});
    json *report = json_file(path);
    for (size_t i = 0; i < TENSORS; i++) {
        double error = error_between(in, out, tensors[i].name);
        assert_true(error > 0.001 && error < 0.01);
        const json *t = report_tensor(report, tensors[i].name);
        assert_float_equal(json_number(t, "relative_error", -1) / error, 1, 1e-6);
        assert_float_equal(json_number(t, "snr_db", -1), -20 * log10(error), 1e-5);
        assert_true(json_number(t, "rmse", -1) > 0 && json_number(t, "max_error", -1) > 0);
    }
    json_free(report);
    check_text((const char *const[]){NULL, "compare", in, out, NULL});
}

/* All of it becomes zero: that is no exact copy. */
TEST(test_nothing_is_left) {
    const char *in = in_folder(folder, "tiny.gguf"), *path = in_folder(folder, "tiny.json");
    make(in, 1);
    static const char *const types[] = {"F16", "Q8_0", "IQ4_NL", "Q4_K"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_text((const char *const[]){NULL, "--force", "--report", path, "--pure", in,
                                         in_folder(folder, "tiny-out.gguf"), types[i], NULL});
        json *report = json_file(path);
        const json *t = report_tensor(report, tensors[0].name);
        assert_true(json_number(t, "relative_error", -1) == 1 && json_number(t, "snr_db", -1) == 0);
        json_free(report);
    }
}

/* A copy that has weights where the original has none is infinitely far off. */
TEST(test_from_nothing) {
    const char *zeros = in_folder(folder, "zeros.gguf"), *in = in_folder(folder, "some.gguf");
    model *m = model_new("llama", 1);
    model_add(m, tensors[0].name, GGUF_F32, (const uint64_t[4]){256, N / 256}, (const float[N]){0});
    model_save(m, zeros);
    make(in, 1);
    char *text, *err;
    assert_int_equal(run_command((const char *const[]){NULL, "compare", zeros, in, NULL}, &text, &err), 0);
    assert_null(strstr(text, "exact"));
    free(text), free(err);
}

int main(void) { return tests_run(folder_make, folder_remove); }
