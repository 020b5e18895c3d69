/* Codecs without files, and files without a quantizer: what gq_encode makes of an array is what a model has.
 */
#include <math.h>

#include "tests/support/folder.h"
#include "tests/support/plans.h"

enum { ROWS = 37, COLS = 512, N = ROWS * COLS };

static float *x, *importance;

FIXTURE(make_arrays) {
    folder = temporary_folder();
    x = random_values(N, 5), importance = random_values(COLS, 6);
    for (size_t i = 0; i < COLS; i++) importance[i] *= importance[i];
    gq_error e;
    gq_gguf_builder *d = gq_gguf_builder_new(&e);
    const gq_value arch = {.kind = GQ_TEXT, .text = "llama", .length = 5},
                   part = {.kind = GQ_TEXT, .text = "part", .length = 4};
    const uint64_t ne[] = {COLS, ROWS};
    assert_true(gq_gguf_builder_set(d, "general.architecture", "string", false, &arch, 1, &e) &&
                gq_gguf_builder_set(d, "general.type", "string", false, &part, 1, &e) &&
                gq_gguf_builder_add(d, "blk.0.ffn_up.weight", 2, ne, GGUF_F32, x, N * sizeof *x, &e) &&
                gq_gguf_builder_write(d, path("in.gguf"), false, &e));
    gq_gguf_builder_free(d);
    FILE *f = fopen(path("in.dat"), "wb");
    write_int(f, 1), write_int(f, 19), fputs("blk.0.ffn_up.weight", f);
    write_int(f, 1), write_int(f, COLS), write_bytes(f, importance, COLS * sizeof *importance);
    fclose(f);
    return 0;
}

static int free_arrays(void **state) {
    free(x), free(importance);
    return folder_remove(state);
}

static void *encoded(uint32_t type, const float *weights, int threads, size_t *bytes, gq_loss *loss) {
    gq_error e;
    const gq_array_options o = {.size = sizeof o, .importance = weights, .threads = threads};
    if (!gq_array_bytes(type, ROWS, COLS, bytes, &e)) fail_msg("%s", e.text);
    void *to = malloc(*bytes);
    if (!gq_encode(type, ROWS, COLS, x, &o, to, *bytes, loss, &e)) fail_msg("%s", e.text);
    return to;
}

/* ---- the same as in files ---- */

TEST(as_a_file_has_it) {
    static const char *const types[] = {"Q2_K", "Q4_K", "Q8_0", "Q4_0", "BF16"};
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        gq_error e;
        size_t bytes, n, tensor;
        gq_loss loss;
        const char *name = types[i / 2];
        bool weighted = i % 2 && strcmp(name, "BF16") != 0;
        uint32_t type = (uint32_t)gq_type_find(name);
        char item[64];
        snprintf(item, sizeof item, "ffn_up=%s", name);
        const char *const items[] = {item};
        const gq_output out = {.path = path("out.gguf"), .filetype = "Q8_0"};
        const gq_options o = {.size = sizeof o,
                              .input = path("in.gguf"),
                              .outputs = &out,
                              .n_outputs = 1,
                              .force = true,
                              .imatrix = weighted ? path("in.dat") : NULL,
                              .tensor_types = {items, 1}};
        gq_results *results = run_plan(&o);
        const gq_loss *of_file = gq_results_losses(results, 0, &n);
        void *blocks = encoded(type, weighted ? importance : NULL, 2, &bytes, &loss);
        gq_model *m = gq_model_open(path("out.gguf"), &e);
        assert_int_equal(tensor = gq_model_find(m, "blk.0.ffn_up.weight"), 0);
        assert_int_equal(gq_model_tensors(m, &n)->type, type);
        uint8_t *stored = malloc(bytes);
        float *decoded = malloc(sizeof *x * N), *read = malloc(sizeof *x * N);
        assert_true(gq_model_read_stored(m, tensor, 0, N, stored, &e));
        assert_memory_equal(stored, blocks, bytes);
        assert_true(gq_model_read(m, tensor, 0, N, read, &e));
        assert_true(gq_decode(type, ROWS, COLS, blocks, bytes, decoded, 2, &e));
        assert_memory_equal(read, decoded, sizeof *x * N);
        assert_true(loss.n == of_file->n && loss.crc32 == of_file->crc32 &&
                    loss.max_error == of_file->max_error);
        assert_true(fabs(loss.e2 - of_file->e2) <= 1e-12 * loss.e2);
        assert_true(fabs(loss.we2 - of_file->we2) <= 1e-12 * loss.we2 && (loss.we2 > 0) == weighted);
        gq_results_free(results), gq_model_close(m);
        free(blocks), free(stored), free(decoded), free(read);
    }
}

TEST(for_any_number_of_threads) {
    for (uint32_t type = 0; type < gq_type_limit(); type++) {
        size_t bytes;
        gq_loss first, loss;
        if (!gq_type_writable(type)) continue;
        void *one = encoded(type, importance, 1, &bytes, &first);
        for (int threads = 2; threads < 6; threads += 3) {
            void *more = encoded(type, importance, threads, &bytes, &loss);
            assert_memory_equal(more, one, bytes);
            assert_true(loss.e2 == first.e2 && loss.we2 == first.we2 && loss.crc32 == first.crc32);
            free(more);
        }
        free(one);
    }
}

/* A product is that with the decoded rows, but for rounding. */
TEST(products) {
    gq_error e;
    float *v = random_values(COLS, 9), *decoded = malloc(sizeof *x * N), out[ROWS], again[ROWS];
    for (uint32_t type = 0; type < gq_type_limit(); type++) {
        size_t bytes;
        if (!gq_type_writable(type)) continue;
        assert_true(gq_type_readable(type));
        void *blocks = encoded(type, NULL, 1, &bytes, NULL);
        assert_true(gq_decode(type, ROWS, COLS, blocks, bytes, decoded, 1, &e));
        if (!gq_dot(type, ROWS, COLS, blocks, bytes, v, out, 1, &e)) fail_msg("%s", e.text);
        assert_true(gq_dot(type, ROWS, COLS, blocks, bytes, v, again, 3, &e));
        assert_memory_equal(out, again, sizeof out);
        for (size_t r = 0; r < ROWS; r++) {
            double exact = 0, sum = 0;
            for (size_t c = 0; c < COLS; c++) {
                double product = (double)decoded[r * COLS + c] * (double)v[c];
                exact += product, sum += fabs(product);
            }
            assert_true(fabs((double)out[r] - exact) <= 1e-3 * sum);
        }
        free(blocks);
    }
    free(v), free(decoded);
}

/* ---- what is refused ---- */

static void refused(bool done, const gq_error *e, gq_status status, const char *says) {
    if (done || e->status != status || !strstr(e->text, says))
        fail_msg("'%s', expected '%s'", done ? "done" : e->text, says);
}

TEST(sizes_that_do_not_fit) {
    gq_error e;
    size_t bytes;
    uint8_t to[8 * 18];
    float some[256];
#define REFUSED(type, rows, cols, says) \
    refused(gq_array_bytes(type, rows, cols, &bytes, &e), &e, GQ_USAGE, says)
    REFUSED(4, 1, 256, "unknown tensor type 4"); /* retired */
    REFUSED(UINT32_MAX, 1, 256, "unknown tensor type");
    REFUSED(GGUF_Q4_K, 3, 320, "multiple of 256");
    REFUSED(GGUF_Q4_0, 3, 0, "multiple of 32");
    REFUSED(GGUF_Q4_0, UINT64_MAX / 32, 64, "than memory can hold");
    REFUSED(GGUF_F32, 1 << 30, UINT64_C(1) << 31, "than memory can hold");
    assert_true(gq_array_bytes(GGUF_Q4_0, 0, 32, &bytes, &e) && bytes == 0);
    assert_true(gq_encode(GGUF_Q4_0, 0, 32, NULL, NULL, NULL, 0, NULL, &e));
    refused(gq_encode(GGUF_Q4_0, 1, 256, x, NULL, to, sizeof to - 1, NULL, &e), &e, GQ_USAGE,
            "143 bytes of blocks, expected 144");
    refused(gq_decode(GGUF_Q4_0, 1, 256, to, sizeof to + 1, some, 1, &e), &e, GQ_USAGE,
            "145 bytes of blocks");
    refused(gq_dot(GGUF_Q4_0, 2, 256, to, sizeof to, x, some, 1, &e), &e, GQ_USAGE, "144 bytes of blocks");
}

TEST(values_that_cannot_be) {
    gq_error e;
    uint8_t to[2 * 512];
    float some[512], weights[256];
    memcpy(some, x, sizeof some), memcpy(weights, importance, sizeof weights);
    gq_array_options o = {.size = sizeof o, .importance = weights};
    some[256 + 7] = NAN;
    refused(gq_encode(GGUF_Q4_0, 2, 256, some, NULL, to, 288, NULL, &e), &e, GQ_BAD_WEIGHTS,
            "row 1, column 7 is nan");
    some[256 + 7] = 1e6f;
    refused(gq_encode(GGUF_F16, 2, 256, some, NULL, to, 1024, NULL, &e), &e, GQ_BAD_WEIGHTS,
            "F16 holds no magnitude above 65504");
    weights[3] = -1;
    refused(gq_encode(GGUF_Q4_0, 2, 256, x, &o, to, 288, NULL, &e), &e, GQ_USAGE, "column 3 is -1");
    weights[3] = INFINITY;
    refused(gq_encode(GGUF_Q4_0, 2, 256, x, &o, to, 288, NULL, &e), &e, GQ_USAGE, "column 3 is inf");
    o.importance = NULL, o.effort = 9;
    refused(gq_encode(GGUF_Q4_0, 2, 256, x, &o, to, 288, NULL, &e), &e, GQ_USAGE, "effort 9");
    o.effort = 0, o.size = 0;
    refused(gq_encode(GGUF_Q4_0, 2, 256, x, &o, to, 288, NULL, &e), &e, GQ_USAGE, "sizeof");
    refused(gq_encode(GGUF_Q8_K, 2, 256, x, NULL, to, 584, NULL, &e), &e, GQ_USAGE, "no encoder for Q8_K");
    some[0] = NAN;
    refused(gq_dot(GGUF_Q4_0, 2, 256, to, 288, some, weights, 1, &e), &e, GQ_USAGE, "element 0");
    assert_true(gq_encode(GGUF_Q4_0, 2, 256, x, NULL, to, 288, NULL, &e));
    assert_int_equal(gq_type_find("q4_k"), GGUF_Q4_K);
    assert_int_equal(gq_type_find("Q4_K_M"), -1);
}

TEST(importance_of_a_file) {
    gq_error e;
    float found[COLS];
    gq_imatrix *m = gq_imatrix_open(path("in.dat"), &e);
    assert_non_null(m);
    assert_true(gq_imatrix_columns(m, 0, 0, found, COLS, &e));
    assert_memory_equal(found, importance, sizeof found);
    assert_true(gq_imatrix_columns(m, 0, 1, found, COLS / 2, &e));
    assert_memory_equal(found, importance + COLS / 2, sizeof found / 2);
    refused(gq_imatrix_columns(m, 1, 0, found, COLS, &e), &e, GQ_USAGE, "entry 1 does not exist");
    refused(gq_imatrix_columns(m, 0, 1, found, COLS, &e), &e, GQ_USAGE, "512 values");
    refused(gq_imatrix_columns(m, 0, 0, found, 100, &e), &e, GQ_USAGE, "512 values");
    gq_imatrix_free(m);
}

int main(void) { return tests_run(make_arrays, free_arrays); }
