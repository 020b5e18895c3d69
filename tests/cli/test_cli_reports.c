/* What the commands say to programs (--json), several copies of one original, names and paths in reports. */
#include <math.h>

#include "tests/support/one_model.h"

static json *parsed(int status, const char *const *words) {
    char *text = output(status, words);
    json *j = json_parse(text);
    assert_plain(text);
    free(text);
    return j;
}
#define PARSED(status, ...) parsed(status, (const char *const[]){__VA_ARGS__, NULL})

static double number(const json *j, const char *key) {
    assert_int_equal(json_need(j, key)->kind, KIND_NUMBER);
    return json_number(j, key, 0);
}

/* ---- a command each ---- */

TEST(test_info) {
    json *j = PARSED(0, "info", "--json", source);
    double weights = number(j, "weights"), bytes = number(j, "tensor_bytes");
    assert_float_equal(number(j, "bits_per_weight"), 8 * bytes / weights, 1e-6);
    assert_true(number(j, "file_bytes") > bytes);
    assert_true(json_need(j, "metadata")->n > 0);
    double sum = 0;
    const json *tensors = json_need(j, "tensors");
    for (size_t i = 0; i < tensors->n; i++) {
        double elements = 1;
        const json *shape = json_need(&tensors->items[i], "shape");
        for (size_t d = 0; d < shape->n; d++) elements *= shape->items[d].number;
        sum += elements;
    }
    assert_true(sum == weights);
    json_free(j);
}

TEST(test_plan) {
    json *j = PARSED(0, "plan", "--json", "--ram", "1G", source);
    const json *types = json_need(j, "types");
    assert_true(types->n > 10 && number(j, "ram") == 1e9 && number(j, "context") > 0);
    for (size_t i = 0; i < types->n; i++) {
        const json *t = &types->items[i];
        assert_non_null(json_text(t, "file_type", NULL));
        assert_true(number(t, "memory_bytes") > 0 && number(t, "bits_per_weight") > 0);
        assert_int_equal(json_need(t, "fits")->kind, KIND_BOOL);
        if (i) assert_true(number(t, "file_bytes") >= number(&types->items[i - 1], "file_bytes"));
    }
    json_free(j);
}

TEST(test_imatrix) {
    json *j = PARSED(0, "imatrix", "show", "--json", matrix, source);
    const json *entries = json_need(j, "entries"), *weights = json_need(j, "weights");
    assert_true(entries->n > 0 && weights->n >= entries->n && json_need(j, "unused")->n == 0);
    for (size_t i = 0; i < entries->n; i++) {
        const json *e = &entries->items[i];
        assert_true(number(e, "values") > 0 && number(e, "max") >= number(e, "mean"));
        assert_true(number(e, "evenness") > 0 && number(e, "evenness") <= 1);
    }
    for (size_t i = 0; i < weights->n; i++)
        assert_int_equal(json_need(&weights->items[i], "fits")->kind, KIND_BOOL);
    json_free(j);
}

TEST(test_compare) {
    const char *out = in_folder(folder, "out.gguf"), *report = in_folder(folder, "r.json");
    GQUANT(0, "-q", source, out, "Q4_K_M");
    json *j = PARSED(0, "compare", "--json", "-r", report, "--imatrix", matrix, source, out),
         *file = json_file(report);
    assert_string_equal(json_text(j, "kind", ""), "comparison");
    assert_string_equal(json_text(j, "input", ""), "model-F16.gguf");
    assert_string_equal(json_text(j, "imatrix", ""), "imatrix.dat");
    assert_string_equal(json_need(j, "options")->items[0].text, "--imatrix imatrix.dat");
    assert_int_equal(json_need(j, "options")->n, 1);
    const json *o = &json_need(j, "outputs")->items[0], *tensors = json_need(o, "tensors");
    assert_string_equal(json_text(o, "path", ""), "out.gguf");
    assert_string_equal(json_text(o, "file_type", ""), "Q4_K_M");
    assert_true(number(o, "relative_error") ==
                number(&json_need(file, "outputs")->items[0], "relative_error"));
    double shares = 0;
    for (size_t i = 0; i < tensors->n; i++) shares += json_number(&tensors->items[i], "error_share", 0);
    assert_float_equal(shares, 1, 1e-6);
    json_free(j), json_free(file);

    j = PARSED(0, "compare", "--json", "--full-paths", "--imatrix", matrix, source, out);
    assert_string_equal(json_text(j, "input", ""), source);
    assert_string_equal(json_text(j, "imatrix", ""), matrix);
    assert_string_equal(json_text(&json_need(j, "outputs")->items[0], "path", ""), out);
    json_free(j);
    unlink(out), unlink(report);
}

/* The same with and without --json, also in what status says. */
TEST(test_verify) {
    const char *out = in_folder(folder, "out.gguf"), *other = in_folder(folder, "other.gguf"),
               *report = in_folder(folder, "r.json");
    GQUANT(0, "-q", "-r", report, source, out, "Q4_0");
    GQUANT(0, "-q", "--prune-layers", "0", source, other, "Q4_0");
    json *j = PARSED(0, "verify", "--json", out);
    assert_true(json_yes(j, "sound"));
    assert_null(json_get(j, "report"));
    const json *tensors = json_need(j, "tensors");
    assert_int_equal(json_need(tensors->items, "problem")->kind, KIND_NULL);
    assert_null(json_get(tensors->items, "in_report"));
    assert_int_equal(strlen(json_text(tensors->items, "crc32", "")), 8);
    json_free(j);
    j = PARSED(0, "verify", "--json", "-r", report, out);
    assert_true(json_yes(j, "sound") && number(j, "problems") == 0);
    assert_true(json_yes(json_need(j, "tensors")->items, "in_report"));
    json_free(j);
    j = PARSED(1, "verify", "--json", "-r", report, other);
    assert_false(json_yes(j, "sound"));
    assert_true(json_need(j, "missing")->n > 0 &&
                number(j, "problems") >= (double)json_need(j, "missing")->n);
    json_free(j);
    unlink(out), unlink(other), unlink(report);
}

/* What is not known is not said: without a report nobody knows which bytes there should be. */
TEST(test_verify_says_what_it_knows) {
    const char *path = in_folder(folder, "one.gguf"), *report = in_folder(folder, "r.json");
    model *m = model_new("odd", 1);
    model_add(m, "a.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_save(m, path);
    char *text = OUTPUT(0, "verify", path);
    assert_non_null(strstr(text, "structurally sound: 1 tensor;"));
    assert_null(strstr(text, "as the report says"));
    free(text);
    GQUANT(0, "-q", "-r", report, source, in_folder(folder, "out.gguf"), "Q8_0");
    text = OUTPUT(0, "verify", "-r", report, in_folder(folder, "out.gguf"));
    assert_null(strstr(text, "structurally"));
    assert_non_null(strstr(text, "sound: "));
    assert_non_null(strstr(text, ", bytes as the report says"));
    free(text);
    unlink(path), unlink(report), unlink(in_folder(folder, "out.gguf"));
}

/* ---- several copies ---- */

static const json *tensor_of(const json *copy, const char *name) {
    const json *tensors = json_need(copy, "tensors");
    for (size_t i = 0; i < tensors->n; i++)
        if (!strcmp(json_text(&tensors->items[i], "name", ""), name)) return &tensors->items[i];
    return NULL;
}

/* Each copy's figures are those it has alone; the smallest error is marked, in all formats. */
TEST(test_copies) {
    const char *a = in_folder(folder, "model-Q4_0.gguf"), *b = in_folder(folder, "model-Q4_K_M.gguf"),
               *c = in_folder(folder, "pruned.gguf"), *csv = in_folder(folder, "r.csv");
    const char *const copies[] = {a, b, c};
    GQUANT(0, "-q", "--out-dir", folder, source, "Q4_0", "Q4_K_M");
    GQUANT(0, "-q", "--prune-layers", "1", source, c, "Q8_0"); /* lacks tensors */
    json *j = PARSED(0, "compare", "--json", "-t", "2", "-r", csv, source, a, b, c);
    const json *outputs = json_need(j, "outputs");
    assert_int_equal(outputs->n, 3);
    size_t best = 0;
    for (size_t k = 0; k < 3; k++) {
        json *alone = PARSED(0, "compare", "--json", source, copies[k]);
        const json *o = &outputs->items[k], *other = json_need(alone, "outputs")->items;
        const json *tensors = json_need(o, "tensors");
        assert_int_equal(tensors->n, json_need(other, "tensors")->n);
        assert_true(number(o, "relative_error") == number(other, "relative_error"));
        assert_true(number(o, "file_bytes") == number(other, "file_bytes"));
        assert_null(json_get(other, "best_in"));
        size_t marked = 0;
        for (size_t i = 0; i < tensors->n; i++) {
            const json *t = &tensors->items[i], *same = tensor_of(other, json_text(t, "name", ""));
            double error = json_number(t, "relative_error", 0);
            assert_true(error == json_number(same, "relative_error", 0));
            bool nearest = true, any = false;
            for (size_t l = 0; l < 3; l++) {
                const json *rival = tensor_of(&outputs->items[l], json_text(t, "name", ""));
                if (rival) nearest &= json_number(rival, "relative_error", 0) >= error;
                if (rival) any |= json_number(rival, "relative_error", 0) > error;
            }
            assert_int_equal(json_yes(t, "best"), nearest && any);
            marked += json_yes(t, "best");
        }
        assert_true(number(o, "best_in") == (double)marked);
        best += marked;
        json_free(alone);
    }
    char *rows = (char *)read_whole(csv, NULL);
    size_t ones = 0;
    for (char *at = rows; (at = strstr(at, ",1,\"\",\"\",\"\"\r\n")); at++) ones++;
    assert_int_equal(ones, best);
    free(rows), json_free(j);

    char *text = OUTPUT(0, "compare", source, a, b, c);
    assert_non_null(strstr(text, "file 3"));
    assert_non_null(strstr(text, "1 model-Q4_0.gguf"));
    assert_non_null(strstr(text, "absent"));
    assert_non_null(strstr(text, "*\n"));
    free(text);
    GQUANT_SAYS(1, "absent.gguf", "compare", source, a, in_folder(folder, "absent.gguf"));
    unlink(a), unlink(b), unlink(c), unlink(csv);
}

/* ---- reports ---- */

/* Who gets a report need not know where files lay. */
TEST(test_no_folders) {
    const char *out = in_folder(folder, "out.gguf");
    static const char *const names[] = {"r.json", "r.csv", "r.html"};
    for (size_t i = 0; i < 3; i++) {
        const char *report = in_folder(folder, names[i]);
        GQUANT(0, "-q", "--force", "-r", report, "--imatrix", matrix, source, out, "Q4_K_M");
        char *text = (char *)read_whole(report, NULL);
        assert_null(strstr(text, folder));
        assert_non_null(strstr(text, "out.gguf"));
        free(text);
        GQUANT(0, "-q", "--force", "--full-paths", "-r", report, "--imatrix", matrix, source, out, "Q4_K_M");
        text = (char *)read_whole(report, NULL);
        assert_non_null(strstr(text, out));
        free(text);
        unlink(report);
    }
    unlink(out);
}

/* What a run left that was killed while it wrote its report goes, also where the next one is refused. */
TEST(a_refused_run_removes_what_a_killed_one_left) {
    const char *report = in_folder(folder, "k.json"), *left = in_folder(folder, ".k.json.gquant-new"),
               *out = in_folder(folder, "k.gguf");
    write_whole(out, "mine", 4);
    write_whole(left, "{", 1);
    GQUANT(1, "-q", "-r", report, source, out, "Q4_0");
    assert_int_equal(access(left, F_OK), -1);
    assert_int_equal(access(report, F_OK), -1);
    unlink(out);
}

int main(void) { return tests_run(set_up, tear_down); }
