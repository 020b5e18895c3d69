/* Files with matrices that are stored transposed, as the commands see them. */
#include "gguf/model.h"
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { TENSORS = 2 * 9 + 3 };

static int make_files(void **state) {
    folder_make(state);
    model_save(evaluation_model(2), path("in.gguf"));
    GQUANT(0, "-q", "--transpose", "ffn_|attn_v", path("in.gguf"), path("turned.gguf"), "COPY");
    GQUANT(0, "-q", "-r", path("run.json"), "--transpose", "ffn_|attn_v", path("in.gguf"), path("q5.gguf"),
           "Q5_K_S");
    write_whole(path("text"), "abcabdacbd", 10);
    return 0;
}

/* ---- compare ---- */

static json *compare(const char *original, const char *copy) {
    GQUANT(0, "compare", "-q", "-r", path("compared.json"), path(original), path(copy));
    json *j = json_file(path("compared.json"));
    unlink(path("compared.json"));
    assert_int_equal(json_need(&json_need(j, "outputs")->items[0], "tensors")->n, TENSORS);
    return j;
}

/* What the run has measured itself. */
TEST(compare_lines_them_up) {
    json *run = json_file(path("run.json")), *found = compare("in.gguf", "q5.gguf");
    static const char *const names[] = {"blk.0.ffn_down.weight", "blk.1.attn_v.weight",
                                        "blk.1.attn_q.weight"};
    for (size_t i = 0; i < 3; i++) {
        const json *a = report_tensor(run, names[i]), *b = report_tensor(found, names[i]);
        double x = json_number(a, "relative_error", 0), y = json_number(b, "relative_error", 1);
        assert_true(x > 0 && y > 0.999999 * x && y < 1.000001 * x);
        assert_true(json_number(a, "max_error", 0) == json_number(b, "max_error", 1));
        assert_int_equal(json_get(a, "transposed") != NULL, i < 2);
        assert_int_equal(json_get(b, "transposed") != NULL, i < 2);
    }
    json_free(run), json_free(found);
}

/* Transposed or not, and the other way round. */
TEST(same_weights_are_the_same) {
    for (int back = 0; back < 2; back++) {
        json *j = back ? compare("turned.gguf", "in.gguf") : compare("in.gguf", "turned.gguf");
        assert_false(json_yes(report_tensor(j, "blk.0.ffn_up.weight"), "measured"));
        assert_false(json_yes(report_tensor(j, "blk.1.attn_v.weight"), "measured"));
        json_free(j);
    }
}

/* ---- what the commands say ---- */

TEST(info_shows_it) {
    char *text = PRINTED("info", path("q5.gguf")), *plain = PRINTED("info", path("in.gguf")),
         *list = PRINTED("info", "--json", path("q5.gguf")), *planned;
    const char *const plan[] = {NULL,           "-nv",  "--transpose", "ffn_up", path("in.gguf"),
                                path("x.gguf"), "Q8_0", NULL};
    assert_int_equal(run_command(plan, &planned, NULL), 0);
    says(text, "512 x 256 T"), says(text, "gquant.transposed");
    says(list, "\"transposed\": true");
    says(planned, "512 x 256 T"), says(planned, "transposed");
    assert_null(strstr(plain, " T "));
    free(text), free(plain), free(list), free(planned);
}

TEST(no_model_runs_so) {
    GQUANT_SAYS(1, "blk.0.attn_v.weight is stored transposed, as gquant.transposed says", "evaluate",
                path("turned.gguf"), "--text", path("text"), "--context", "4");
    GQUANT_SAYS(1, "transpose it back first", "evaluate", path("in.gguf"), path("q5.gguf"), "--text",
                path("text"), "--context", "4");
    GQUANT_SAYS(1, "is stored transposed", "imatrix", "compute", path("turned.gguf"), path("text"),
                path("x.gguf"));
    GQUANT_SAYS(1, "is stored transposed", "-n", "--calibrate", path("text"), path("turned.gguf"), "x.gguf",
                "Q4_K_S");
    GQUANT(0, "-q", "--transpose", "ffn_|attn_v", path("turned.gguf"), path("back.gguf"), "COPY");
    GQUANT(0, "evaluate", path("in.gguf"), path("back.gguf"), "--text", path("text"), "--context", "4");
}

/* ---- files that lie ---- */

static void write_marked(const char *to, uint32_t type, const char *const *names, size_t n) {
    model *m = model_new("llama", 1);
    uint8_t value[512];
    uint64_t count = n, size = 12;
    memcpy(value, &type, 4), memcpy(value + 4, &count, 8);
    for (size_t i = 0; i < n; i++) {
        uint64_t length = strlen(names[i]);
        memcpy(value + size, &length, 8), memcpy(value + size + 8, names[i], length);
        size += 8 + length;
    }
    if (type != GGUF_STRING) size = 12 + n * gguf_value_size(type);
    model_set(m, "gquant.transposed", GGUF_ARRAY, value, size);
    model_add(m, "blk.0.attn_norm.weight", GGUF_F32, (uint64_t[4]){64}, NULL);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){64, 32}, NULL);
    model_save(m, path(to));
}

static void expect_problem(const char *file, const char *text) {
    char *out;
    int status = run_command((const char *const[]){NULL, "verify", path(file), NULL}, &out, NULL);
    assert_int_equal(status, 1);
    says(out, text);
    free(out);
    GQUANT(0, "-q", "--force", path(file), path("any.gguf"), "Q8_0"); /* what is wrong is not handed on */
    GQUANT(0, "verify", path("any.gguf"));
    GQUANT(0, "info", path(file));
    GQUANT(0, "compare", "-q", path(file), path("any.gguf"));
}

TEST(verify_looks_at_names) {
    static const char *const good[] = {"blk.0.attn_q.weight"},
                             *const unknown[] = {"blk.0.attn_q.weight", "x"},
                             *const twice[] = {"blk.0.attn_q.weight", "blk.0.attn_q.weight"},
                             *const vector[] = {"blk.0.attn_norm.weight"};
    char name[201];
    memset(name, 'a', 200), name[200] = 0;
    write_marked("good.gguf", GGUF_STRING, good, 1);
    GQUANT(0, "verify", path("good.gguf"));
    GQUANT(0, "verify", path("q5.gguf"));
    write_marked("bad.gguf", GGUF_STRING, unknown, 2);
    expect_problem("bad.gguf", "entry 2 of 2 is not the name of a tensor");
    write_marked("bad.gguf", GGUF_STRING, (const char *const[]){name}, 1);
    expect_problem("bad.gguf", "entry 1 of 1 is not the name of a tensor");
    write_marked("bad.gguf", GGUF_STRING, twice, 2);
    expect_problem("bad.gguf", "has 2 names of 1 tensor");
    write_marked("bad.gguf", GGUF_STRING, vector, 1);
    expect_problem("bad.gguf", "names blk.0.attn_norm.weight, which is not a matrix");
    write_marked("bad.gguf", GGUF_U32, good, 1);
    expect_problem("bad.gguf", "is not an array of strings");
}

/* ---- memory ---- */

/* A matrix of 32 MiB, of which a copy in floats would take all that there may be. */
TEST(memory_is_bounded) {
    static const uint64_t shapes[][4] = {{64, 1 << 18}, {1 << 18, 64}};
    for (size_t i = 0; i < 2; i++) {
        model *m = model_new("llama", 1);
        model_add(m, "blk.0.attn_q.weight", GGUF_F16, shapes[i], NULL);
        model_save(m, path("large.gguf"));
        bounded_times(1, folder,
                      (const char *const[]){"-q", "--threads", "2", "--force", "--transpose", "attn",
                                            "large.gguf", "large-out.gguf", "Q4_0", NULL});
        bounded_times(
            1, folder,
            (const char *const[]){"compare", "-q", "--threads", "2", "large.gguf", "large-out.gguf", NULL});
    }
}

int main(void) { return tests_run(make_files, folder_remove); }
