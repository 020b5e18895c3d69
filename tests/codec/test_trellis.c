/* A type whose rows have a head and whose codes are a path through a trellis (tests/support/trellis_type.h): the
 * whole library reads, writes, calibrates and runs it. No table of the library has it. */
#include <math.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/numbers.h"
#include "tests/support/quant_kld.h"
#include "tests/support/trellis_type.h"

enum { ROWS = 40, COLS = 288, N = ROWS * COLS, CONTEXT = 24, TOKENS = 16 * CONTEXT };

static char text[8 * TOKENS];

static int start(void **state) {
    folder_make(state);
    trellis_use(TRELLIS_TOGETHER);
    write_run_models(path("model.gguf"), 2, path("experts.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % 512);
    return 0;
}

/* ---- rows ---- */

static size_t row_bytes(size_t cols) { return TRELLIS_HEAD + cols / TRELLIS_COLUMNS * TRELLIS_BLOCK; }

/* Encodes rows by the public function; returns the loss. */
static gq_loss encoded(const float *x, const gq_array_options *options, uint8_t *to) {
    gq_loss loss;
    gq_error e;
    size_t bytes;
    assert_true(gq_array_bytes(TRELLIS, ROWS, COLS, &bytes, &e));
    assert_int_equal(bytes, ROWS * row_bytes(COLS));
    if (!gq_encode(TRELLIS, ROWS, COLS, x, options, to, bytes, &loss, &e)) fail_msg("%s", e.text);
    return loss;
}

static double error_of(const gq_loss *l) { return sqrt(l->e2 / l->x2); }

TEST(rows_are_heads_and_blocks) {
    static float x[N], y[N], part[COLS], product[ROWS];
    static uint8_t rows[ROWS * 128], apart[128];
    gq_error e;
    const codec *c = &kernels_select()->codecs[TRELLIS];
    seed_random(3), fill_normal(x, N, 0.1f);
    gq_loss loss = encoded(x, NULL, rows);
    if (!(error_of(&loss) < 0.36)) fail_msg("%g", error_of(&loss));
    assert_true(gq_decode(TRELLIS, ROWS, COLS, rows, ROWS * row_bytes(COLS), y, 2, &e));
    assert_true(gq_dot(TRELLIS, ROWS, COLS, rows, ROWS * row_bytes(COLS), x, product, 2, &e));
    for (size_t r = 0; r < ROWS; r++) {
        const uint8_t *row = rows + r * row_bytes(COLS);
        double sum = 0;
        c->encode(x + r * COLS, apart, 1, COLS, NULL, &(encode_settings){.effort = EFFORT_DEFAULT});
        assert_memory_equal(row, apart, row_bytes(COLS));
        for (size_t i = 0; i < COLS; i++) sum += (double)y[r * COLS + i] * (double)x[i];
        assert_true(fabs(sum - (double)product[r]) < 1e-4);
        c->decode(row, 3 * TRELLIS_COLUMNS, part, 5 * TRELLIS_COLUMNS);
        assert_memory_equal(part, y + r * COLS + 3 * TRELLIS_COLUMNS, 5 * TRELLIS_COLUMNS * sizeof *part);
    }
    assert_false(gq_array_bytes(TRELLIS, 1, 2 * GGUF_HEADERED_COLUMNS, &(size_t){0}, &e));
    assert_non_null(strstr(e.text, "65536"));
}

TEST(a_path_is_better_than_one_code_after_another) {
    static float x[N];
    static uint8_t rows[ROWS * 128];
    seed_random(4), fill_normal(x, N, 0.1f);
    gq_loss path = encoded(x, NULL, rows);
    trellis_use(TRELLIS_GREEDY);
    gq_loss greedy = encoded(x, NULL, rows);
    trellis_use(TRELLIS_TOGETHER);
    print_message("error of rows: path %.4f, one after another %.4f\n", error_of(&path), error_of(&greedy));
    assert_true(error_of(&path) < 0.93 * error_of(&greedy));
}

/* Columns answer for the errors of those before them: of other blocks in any case, of their own where the
 * path knows what errors cost together. */
TEST(a_path_is_rounded_with_feedback) {
    static float x[N], h[COLS * COLS], diagonal[COLS];
    static uint8_t rows[ROWS * 128];
    double error[3];
    seed_random(5), fill_normal(x, N, 0.1f);
    for (size_t i = 0; i < COLS * COLS; i++) h[i] = powf(0.93f, fabsf((float)(i / COLS) - (float)(i % COLS)));
    for (size_t i = 0; i < COLS; i++) diagonal[i] = h[i * COLS + i];
    gq_array_options options = {.size = sizeof options, .importance = diagonal, .threads = 1},
                     by_moments = options;
    by_moments.moments = h; /* the name of hessian in version 0.1 */
    by_moments.importance = NULL;
    for (trellis_way way = TRELLIS_TOGETHER; way <= TRELLIS_GREEDY; way++) {
        trellis_use(way);
        gq_loss loss = encoded(x, &by_moments, rows);
        error[way] = sqrt(loss.we2 / loss.wx2);
    }
    trellis_use(TRELLIS_TOGETHER);
    print_message("error of outputs: together %.4f, each %.4f, one after another %.4f\n", error[0], error[1],
                  error[2]);
    assert_true(error[TRELLIS_TOGETHER] < 0.9 * error[TRELLIS_EACH]);
    assert_true(error[TRELLIS_TOGETHER] < error[TRELLIS_GREEDY]);
}

/* ---- files ---- */

static const char *const ffn = "ffn=trellis";

/* Writes the model with the feed-forward matrices in the type, or in another if `type` names one. */
static gq_results *write_copy(const char *in, const char *out, const char *type, bool calibrates,
                              int threads) {
    gq_output output = {.path = path(out), .filetype = "Q8_0"};
    gq_calibration calibration = {
        .size = sizeof calibration,
        .text = {.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT}};
    gq_options o = {.size = sizeof o,
                    .input = path(in),
                    .outputs = &output,
                    .n_outputs = 1,
                    .tensor_types = {&type, 1},
                    .effort = GQ_EFFORT_FAST,
                    .threads = threads,
                    .allow_requantize = true,
                    .calibration = calibrates ? &calibration : NULL,
                    .force = true};
    return run_plan(&o);
}

static void must_verify(const char *file) {
    gq_error e;
    size_t n;
    gq_verification *v = gq_verify(path(file), NULL, 0, 2, NULL, &e);
    if (!v) fail_msg("%s", e.text);
    const gq_verdict *verdicts = gq_verification_verdicts(v, &n);
    for (size_t i = 0; i < n; i++)
        if (*verdicts[i].problem || !verdicts[i].has_digest)
            fail_msg("%s: %s", verdicts[i].name, verdicts[i].problem);
    gq_verification_free(v);
}

static gq_model *must_open(const char *file) {
    gq_error e;
    gq_model *m = gq_model_open(path(file), &e);
    if (!m) fail_msg("%s", e.text);
    return m;
}
static float *values_of(const gq_model *m, size_t tensor, uint64_t first, uint64_t n) {
    gq_error e;
    float *x = malloc(n * sizeof *x);
    if (!gq_model_read(m, tensor, first, n, x, &e)) fail_msg("%s", e.text);
    return x;
}

static double kld_of(const char *copy) { return quant_kld(path("model.gguf"), path(copy), text, CONTEXT); }

/* Written, verified, read back, compared, in part and whole, by any number of threads; and made into another
 * type. */
TEST(a_file_has_it) {
    static const char name[] = "blk.1.ffn_down.weight";
    gq_error e;
    gq_results *once = write_copy("model.gguf", "plain.gguf", ffn, false, 1),
               *again = write_copy("model.gguf", "again.gguf", ffn, false, 2);
    assert_same_losses(once, 0, again, 0);
    assert_same_file(path("plain.gguf"), path("again.gguf"));
    must_verify("plain.gguf");
    gq_model *m = must_open("plain.gguf"), *f16;
    size_t k = gq_model_find(m, name), n_tensors;
    const gq_stored *t = &gq_model_tensors(m, &n_tensors)[k];
    uint64_t cols = t->ne[0], n = cols * t->ne[1], first = cols - TRELLIS_COLUMNS;
    assert_int_equal(t->type, TRELLIS);
    assert_int_equal(t->bytes, t->ne[1] * row_bytes(cols));
    float *values = values_of(m, k, 0, n), *some = values_of(m, k, first, 3 * TRELLIS_COLUMNS), *same;
    assert_memory_equal(some, values + first, 3 * TRELLIS_COLUMNS * sizeof *some); /* a row's end, and more */
    assert_false(gq_model_read_stored(m, k, first, 3 * TRELLIS_COLUMNS, some, &e));
    assert_non_null(strstr(e.text, "expected whole rows of"));
    gq_results_free(write_copy("plain.gguf", "f16.gguf", "ffn=F16", false, 2));
    f16 = must_open("f16.gguf");
    same = values_of(f16, gq_model_find(f16, name), 0, n);
    for (uint64_t i = 0; i < n; i++)
        assert_true(fabsf(same[i] - values[i]) <= 0x1p-11f * fabsf(values[i]) + 0x1p-24f);
    gq_comparison *c =
        gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                            .base_model = path("model.gguf"),
                                            .quants = (const char *const[]){path("plain.gguf")},
                                            .n_quants = 1,
                                            .threads = 2},
                   &e);
    if (!c) fail_msg("%s", e.text);
    gq_comparison_free(c);
    free(values), free(some), free(same);
    gq_model_close(m), gq_model_close(f16);
    gq_results_free(once), gq_results_free(again);
}

/* Whatever goes through a tensor in pieces takes whole rows: of 288 columns neither a strip nor a piece is a
 * number of rows. */
TEST(rows_are_not_cut) {
    gq_error e;
    model *made = model_new("llama", 1);
    model_add(made, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){COLS, (1 << 20) / COLS + 60}, NULL);
    model_save(made, path("long.gguf"));
    gq_results_free(write_copy("long.gguf", "rows.gguf", ffn, false, 2));
    must_verify("rows.gguf");
    gq_results_free(write_copy("rows.gguf", "f32.gguf", "ffn=F32", false, 2));
    gq_comparison *c = gq_compare(&(gq_comparison_request){.size = sizeof(gq_comparison_request),
                                                           .base_model = path("f32.gguf"),
                                                           .quants = (const char *const[]){path("rows.gguf")},
                                                           .n_quants = 1,
                                                           .threads = 2},
                                  &e);
    if (!c) fail_msg("%s", e.text);
    const gq_loss *loss = gq_comparison_losses(c, 0);
    assert_true(loss->n > 1 << 20 && loss->x2 > 0 && loss->e2 == 0);
    gq_comparison_free(c);
}

TEST(it_is_calibrated_and_run) {
    gq_results_free(write_copy("model.gguf", "plain.gguf", ffn, false, 1));
    gq_results_free(write_copy("model.gguf", "calibrated.gguf", ffn, true, 1));
    gq_results_free(write_copy("model.gguf", "again.gguf", ffn, true, 2));
    assert_same_file(path("calibrated.gguf"), path("again.gguf"));
    must_verify("calibrated.gguf");
    double plain = kld_of("plain.gguf"), calibrated = kld_of("calibrated.gguf");
    print_message("divergence: plain %.5f, calibrated %.5f\n", plain, calibrated);
    assert_true(calibrated < plain);
}

int main(void) { return tests_run(start, folder_remove); }
