/* With importance data the engine takes rows of many columns several at a time: wherever it cuts, the bytes
 * are those that the encoder gives for the whole tensor, and the numbers are the same for any number of
 * threads. */
#include "codec/codec.h"
#include "imatrix/imatrix.h"
#include "tests/support/folder.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/model.h"
#include "tests/support/numbers.h"

static const struct {
    const char *name;
    uint64_t ne[4];
} tensors[] = {
    {"blk.0.attn_q.weight", {256, 5000}},             /* many batches in a strip */
    {"blk.0.attn_k.weight", {4352, 37}},              /* 16 rows are more than a small strip */
    {"blk.0.ffn_down.weight", {28672, 39}},           /* chunks of 32 rows */
    {"blk.0.ffn_up.weight", {53248, 21}},             /* 16 rows are a chunk */
    {"blk.0.ffn_gate.weight", {(1 << 17) + 512, 13}}, /* 16 rows are more than a strip: 4 are taken */
    {"blk.1.ffn_gate.weight", {(1 << 20) + 512, 2}},  /* a row is more than a strip */
    {"blk.0.ffn_down_exps.weight", {4352, 19, 3}},    /* matrices, each with its own importance */
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static void write_wide_model(void) {
    model *m = model_new("llama", 2);
    blob b = {.n = 0};
    seed_random(1);
    put32(&b, N_TENSORS);
    for (size_t i = 0; i < N_TENSORS; i++) {
        const uint64_t *ne = tensors[i].ne;
        size_t n = ne[0] * (ne[2] ? ne[2] : 1);
        float *values = malloc(n * sizeof *values);
        assert_non_null(values);
        fill_importance(values, n);
        put_entry(&b, tensors[i].name, 1, values, (int32_t)n);
        model_add(m, tensors[i].name, GGUF_F16, ne, NULL);
        free(values);
    }
    put_trailer(&b, 1, "made up");
    model_write(m, path("wide.gguf"));
    write_whole(path("wide.dat"), b.bytes, b.n);
    model_free(m), free(b.bytes);
}

static gq_results *run_wide(const char *out, int threads) {
    gq_output output = {.path = out, .filetype = "Q4_K_S"};
    return run_plan(&(gq_options){.size = sizeof(gq_options),
                                  .input = path("wide.gguf"),
                                  .imatrix = path("wide.dat"),
                                  .outputs = &output,
                                  .n_outputs = 1,
                                  .threads = threads,
                                  .effort = GQ_EFFORT_FAST});
}

TEST_WITH(cuts_leave_no_trace, folder_make, folder_remove) {
    imatrix im;
    gq_error e;
    write_wide_model();
    gq_results_free(run_wide(path("cut.gguf"), 2));
    if (!imatrix_open(&im, path("wide.dat"), &e)) fail_msg("%s", e.text);
    model_source in = open_model(path("wide.gguf")), out = open_model(path("cut.gguf"));
    assert_int_equal(out.n_tensors, N_TENSORS);
    for (uint64_t i = 0; i < out.n_tensors; i++) {
        const model_tensor *t = out.tensors[i];
        uint64_t n, size;
        float *x = tensor_values(&in, t->name, &n), *w = malloc(4 * t->ne[0]);
        uint8_t *found = tensor_bytes(&out, t->name, &size), *wanted = malloc(size);
        const imatrix_entry *entry = imatrix_find(&im, t->name);
        assert_true(t->type->quantized && entry && w && wanted);
        uint64_t each = t->ne[0] * t->ne[1];
        for (uint64_t k = 0; k < t->ne[2]; k++) {
            imatrix_column(entry, k, t->ne[0], w);
            kernels_select()->codecs[t->type->id].encode(x + k * each, wanted + model_bytes(t, k * each),
                                                         t->ne[1], t->ne[0], w,
                                                         &(encode_settings){.effort = EFFORT_FAST});
        }
        if (memcmp(found, wanted, size) != 0) fail_msg("%s differs", t->name);
        free(x), free(w), free(found), free(wanted);
    }
    imatrix_free(&im);
    model_close(&in), model_close(&out);
}

TEST_WITH(bytes_and_numbers_for_any_threads, folder_make, folder_remove) {
    write_wide_model();
    gq_results *one = run_wide(path("one.gguf"), 1), *three = run_wide(path("three.gguf"), 3);
    assert_same_file(path("one.gguf"), path("three.gguf"));
    assert_same_losses(one, 0, three, 0);
    gq_results_free(one), gq_results_free(three);
}

int main(void) { return tests_run(NULL, NULL); }
