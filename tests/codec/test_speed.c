/* evaluate --speed: which matrices count, what adds up, and how it is told. */
#include <math.h>

#include "tests/support/json.h"
#include "tests/support/model.h"
#include "tests/support/one_model.h"

/* ---- which matrices ---- */

static gq_speed *measure(const char *path, int threads) {
    gq_error e;
    const gq_speed_request r = {.size = sizeof r, .models = &path, .n_models = 1, .threads = threads};
    gq_speed *v = gq_speed_measure(&r, &e);
    if (!v) fail_msg("%s", e.text);
    return v;
}

static void add(model *m, const char *name, uint32_t type, uint64_t cols, uint64_t rows, uint64_t matrices) {
    model_add(m, name, type, (const uint64_t[4]){cols, rows, matrices, 0}, NULL);
}

/* Rows of embeddings are taken, not multiplied; norms and convolutions are no matrices; of eight experts two
 * are used. */
TEST(test_what_a_token_needs) {
    const char *path = in_folder(folder, "experts.gguf");
    model *m = model_new("llama", 1);
    model_set_u32(m, "llama.expert_used_count", 2);
    add(m, "token_embd.weight", GGUF_F16, 256, 50, 0);
    add(m, "output.weight", GGUF_F16, 256, 50, 0);
    add(m, "output_norm.weight", GGUF_F32, 256, 0, 0);
    add(m, "blk.0.attn_q_norm.weight", GGUF_F32, 64, 4, 0);
    add(m, "blk.0.ssm_conv1d.weight", GGUF_F32, 4, 256, 0);
    add(m, "blk.0.attn_q.bias", GGUF_F32, 256, 2, 0);
    add(m, "blk.0.attn_q.weight", GGUF_F32, 256, 30, 0);
    add(m, "blk.0.ffn_up_exps.weight", GGUF_F16, 256, 20, 8);
    model_save(m, path);
    gq_speed *v = measure(path, 2);
    size_t n;
    const gq_speed_file *f = gq_speed_files(v, &n);
    assert_int_equal(n, 1);
    assert_string_equal(f->path, path);
    assert_int_equal(gq_speed_threads(v), 2);
    assert_int_equal(f->matrices, 3);
    assert_int_equal(f->weights, 256 * (50 + 30 + 2 * 20));
    assert_int_equal(f->bytes, 256 * (2 * 50 + 4 * 30 + 2 * 2 * 20));
    assert_int_equal(f->n_types, 2);
    assert_int_equal(f->types[0].type, GGUF_F32);
    assert_int_equal(f->types[0].weights, 256 * 30);
    assert_int_equal(f->types[1].matrices, 2);
    assert_int_equal(f->types[0].bytes + f->types[1].bytes, f->bytes);
    assert_true(f->seconds > 0 && f->read_seconds > 0);
    assert_true(fabs(f->types[0].seconds + f->types[1].seconds - f->seconds) < 1e-6 * f->seconds);
    gq_speed_free(v);
    unlink(path);
}

TEST(test_the_embedding_is_the_head) {
    const char *path = in_folder(folder, "tied.gguf");
    model *m = model_new("llama", 1);
    add(m, "token_embd.weight", GGUF_F16, 300, 50, 0); /* no multiple of what kernels take at once */
    model_save(m, path);
    gq_speed *v = measure(path, 1);
    size_t n;
    assert_int_equal(gq_speed_files(v, &n)->weights, 300 * 50);
    gq_speed_free(v);
    unlink(path);
}

TEST(test_nothing_to_multiply) {
    const char *path = in_folder(folder, "vector.gguf");
    model *m = model_new("llama", 1);
    add(m, "output_norm.weight", GGUF_F32, 256, 0, 0);
    model_save(m, path);
    GQUANT_SAYS(1, "no tensor in it is a matrix", "evaluate", "--speed", path);
    unlink(path);
}

/* ---- the command ---- */

TEST(test_command) {
    const char *small = in_folder(folder, "small.gguf"), *report = in_folder(folder, "speed.csv");
    char *out;
    GQUANT(0, "-q", source, small, "Q4_K_M");
    const char *words[] = {NULL, "evaluate", "--speed", "-t", "2", "-r", report, source, small, NULL};
    assert_int_equal(run_command(words, &out, NULL), 0);
    assert_non_null(strstr(out, "model-F16.gguf: "));
    assert_non_null(strstr(out, " tokens/s\n"));
    assert_non_null(strstr(out, "\nQ6_K "));
    assert_non_null(strstr(out, "\nall "));
    assert_non_null(strstr(out, "\nsmall.gguf ")); /* side by side */
    assert_non_null(strstr(out, "2 threads"));
    free(out);
    size_t size;
    char *csv = (char *)read_whole(report, &size);
    assert_non_null(strstr(csv, "file,type,matrices,"));
    assert_non_null(strstr(csv, "\r\n\"small.gguf\",Q4_K,"));
    assert_non_null(strstr(csv, "\r\n\"small.gguf\",all,"));
    free(csv);
    unlink(small), unlink(report);
    GQUANT_SAYS(2, ".json and .csv", "evaluate", "--speed", "-r", in_folder(folder, "speed.html"), source);
    GQUANT_SAYS(1, "absent.gguf", "evaluate", "--speed", in_folder(folder, "absent.gguf"));
}

TEST(test_json) {
    char *out;
    const char *words[] = {NULL, "evaluate", "--speed", "--json", source, NULL};
    assert_int_equal(run_command(words, &out, NULL), 0);
    json *j = json_parse(out);
    const json *file = &json_get(j, "files")->items[0], *type = &json_get(file, "types")->items[0];
    assert_string_equal(json_text(file, "path", ""), "model-F16.gguf");
    assert_true(json_number(file, "tokens_per_second", 0) > 0);
    assert_true(json_number(type, "share_of_reading", 0) > 0);
    assert_string_equal(json_text(type, "type", ""), "F16");
    json_free(j), free(out);
}

int main(void) { return tests_run(set_up, tear_down); }
