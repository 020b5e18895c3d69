/* gquant imatrix show|merge|convert. */
#include <math.h>

#include "tests/support/command.h"
#include "tests/support/imatrix_files.h"

static char *folder;
static const char *source, *matrix;

FIXTURE(set_up) {
    folder = temporary_folder();
    source = strdup(in_folder(folder, "model.gguf"));
    matrix = strdup(in_folder(folder, "imatrix.dat"));
    make_model(
        (const char *const[]){"--weights", "3000000", "--experts", "2", "--imatrix", matrix, source, NULL});
    return 0;
}

FIXTURE(tear_down) {
    free((void *)source), free((void *)matrix);
    remove_folder(folder);
    return 0;
}

static json *show(const char *path, const char *of) {
    char *text;
    assert_int_equal(
        run_command((const char *const[]){NULL, "imatrix", "show", "--json", path, of, NULL}, &text, NULL),
        0);
    json *j = json_parse(text);
    free(text);
    return j;
}

TEST(test_show) {
    json *j = show(matrix, source);
    assert_string_equal(json_text(j, "layout", ""), "dat");
    assert_true(json_number(j, "chunk_count", 0) == 100);
    const json *entries = json_need(j, "entries"), *weights = json_need(j, "weights");
    assert_true(entries->n >= 7);
    const json *unused = json_need(j, "unused");
    assert_true(unused->n > 0);
    for (size_t i = 0; i < unused->n; i++) /* routers, which are not quantized */
        assert_non_null(strstr(unused->items[i].text, "ffn_gate_inp"));
    for (size_t i = 0; i < entries->n; i++) {
        const json *entry = &entries->items[i];
        assert_true(json_number(entry, "min", -1) >= 0 &&
                    json_number(entry, "mean", 0) > json_number(entry, "min", 0));
        assert_true(json_number(entry, "max", 0) > json_number(entry, "mean", 0));
        assert_true(json_number(entry, "evenness", 0) > 0 && json_number(entry, "evenness", 0) < 1);
    }
    size_t without = 0;
    for (size_t i = 0; i < weights->n; i++) without += !json_yes(&weights->items[i], "has_entry");
    assert_int_equal(without, 2); /* the embedding and the output */
    json_free(j);
    char *text;
    assert_int_equal(
        run_command((const char *const[]){NULL, "imatrix", "show", matrix, source, NULL}, &text, NULL), 0);
    assert_non_null(strstr(text, "blk.0.attn_q.weight"));
    assert_non_null(strstr(text, "weights have data"));
    assert_non_null(strstr(text, "no entry"));
    free(text);
}

TEST(every_weight_has_data) {
    static const float ones[256] = {1, 1, 1, 1, 1, 1, 1, 1};
    model *m = model_new("llama", 1);
    model_add(m, "token_embd.weight", GGUF_F32, (uint64_t[4]){256, 8}, NULL);
    model_add(m, "blk.0.attn_q.weight", GGUF_F32, (uint64_t[4]){256, 8}, NULL);
    model_save(m, in_folder(folder, "two.gguf"));
    blob b = {0};
    put32(&b, 2);
    put_entry(&b, "token_embd.weight", 4, ones, 256);
    put_entry(&b, "blk.0.attn_q.weight", 4, ones, 256);
    write_whole(in_folder(folder, "two.dat"), b.bytes, b.n);
    free(b.bytes);
    char *dat = strdup(in_folder(folder, "two.dat")), *text;
    assert_int_equal(
        run_command((const char *const[]){NULL, "imatrix", "show", dat, in_folder(folder, "two.gguf"), NULL},
                    &text, NULL),
        0);
    assert_non_null(strstr(text, "2 of 2 weights have data"));
    assert_null(strstr(text, "PROBLEM"));
    remove(dat), remove(in_folder(folder, "two.gguf"));
    free(text), free(dat);
}

/* The entries say the same, whatever the layout. */
static void assert_same_numbers(const char *a, const char *b) {
    static const char *const numbers[] = {"values", "min", "max", "mean", "deviation", "entropy"};
    json *x = show(a, NULL), *y = show(b, NULL);
    const json *p = json_need(x, "entries"), *q = json_need(y, "entries");
    assert_int_equal(p->n, q->n);
    for (size_t i = 0; i < p->n; i++) {
        assert_string_equal(json_text(&p->items[i], "name", "x"), json_text(&q->items[i], "name", "y"));
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            assert_float_equal(
                json_number(&p->items[i], numbers[k], 1) / json_number(&q->items[i], numbers[k], 2), 1, 1e-5);
    }
    json_free(x), json_free(y);
}

TEST(test_convert) {
    const char *gguf = in_folder(folder, "i.gguf"), *back = in_folder(folder, "back.dat");
    GQUANT(0, "imatrix", "convert", matrix, gguf);
    uint8_t *bytes = read_whole(gguf, NULL);
    assert_memory_equal(bytes, "GGUF", 4);
    free(bytes);
    assert_same_numbers(matrix, gguf);
    char *said = PRINTED("imatrix", "convert", gguf, back);
    says(said, "back.dat: .dat layout, "), says(said, " entries from 1 file\n");
    free(said);
    assert_same_numbers(matrix, back);
    GQUANT_SAYS(1, "--force", "imatrix", "convert", matrix, gguf);
    GQUANT(0, "--quiet", source, in_folder(folder, "a.gguf"), "--imatrix", matrix, "Q4_0");
    GQUANT(0, "--quiet", source, in_folder(folder, "b.gguf"), "--imatrix", back, "Q4_0");
    model_source a = open_model(in_folder(folder, "a.gguf")), b = open_model(in_folder(folder, "b.gguf"));
    for (uint64_t i = 0; i < a.n_tensors; i++) { /* the same importance, so the same weights */
        uint64_t n;
        uint8_t *x = tensor_bytes(&a, a.tensors[i]->name, &n), *y = tensor_bytes(&b, a.tensors[i]->name, &n);
        assert_memory_equal(x, y, n);
        free(x), free(y);
    }
    model_close(&a), model_close(&b);
    unlink(gguf), unlink(back), unlink(in_folder(folder, "a.gguf")), unlink(in_folder(folder, "b.gguf"));
}

TEST(test_merge) {
    const char *gguf = in_folder(folder, "i.gguf"), *sum = in_folder(folder, "sum.dat");
    GQUANT(0, "imatrix", "convert", matrix, gguf);
    GQUANT_SAYS(0, "is given twice, and counts twice", "imatrix", "merge", matrix, gguf, matrix, sum);
    assert_same_numbers(matrix, sum); /* three times the same data: the same means */
    json *j = show(sum, NULL);
    assert_true(json_number(j, "chunk_count", 0) == 300);
    json_free(j);
    GQUANT_SAYS(1, "absent", "imatrix", "merge", matrix, in_folder(folder, "absent"),
                in_folder(folder, "x.dat"));
    assert_false(exists(in_folder(folder, "x.dat")));
    unlink(gguf), unlink(sum);
}

/* Two entries of no model here, of so many columns. */
static void write_other(const char *path, const char *first, const char *second) {
    const char *const names[] = {first, second};
    const float values[2] = {1, 2};
    FILE *f = fopen(path, "wb");
    int32_t n = 2, calls = 1, columns = 2;
    fwrite(&n, 4, 1, f);
    for (size_t i = 0; i < 2; i++) {
        int32_t length = (int32_t)strlen(names[i]);
        fwrite(&length, 4, 1, f), fwrite(names[i], 1, (size_t)length, f);
        fwrite(&calls, 4, 1, f), fwrite(&columns, 4, 1, f), fwrite(values, 4, 2, f);
    }
    fclose(f);
}

/* Routers are the model's, though nothing quantizes them; of what it does not have at all something else is
 * said. */
TEST(entries_without_use_are_told_apart) {
    const char *other = in_folder(folder, "other.dat"), *both = in_folder(folder, "both.dat");
    char *text = printed((const char *const[]){NULL, "imatrix", "show", matrix, source, NULL});
    says(text, "ffn_gate_inp.weight: of a weight that is not quantized");
    assert_null(strstr(text, "no weight of the model"));
    free(text);
    write_other(other, "elsewhere.weight", "nowhere.weight");
    GQUANT(0, "-q", "imatrix", "merge", matrix, other, both);
    text = printed((const char *const[]){NULL, "imatrix", "show", both, source, NULL});
    says(text, "elsewhere.weight: of no weight of the model");
    says(text, "ffn_gate_inp.weight: of a weight that is not quantized");
    free(text);
    json *j = show(both, source);
    const json *unknown = json_need(j, "unknown");
    assert_int_equal(unknown->n, 2);
    assert_string_equal(unknown->items[0].text, "elsewhere.weight");
    assert_true(json_need(j, "unused")->n > 2);
    json_free(j);
    unlink(other), unlink(both);
}

TEST(data_of_other_models_are_warned_of_when_merged) {
    const char *a = in_folder(folder, "a.dat"), *b = in_folder(folder, "b.dat"),
               *c = in_folder(folder, "c.dat");
    write_other(a, "elsewhere.weight", "shared.weight"), write_other(b, "nowhere.weight", "shared.weight");
    GQUANT_SAYS(0, "1 of its 2 entries is in no earlier file, and 1 of the earlier files' is missing here",
                "imatrix", "merge", a, b, c);
    GQUANT_SAYS(0, "nowhere.weight", "imatrix", "merge", "--force", a, b, c);
    char *err = gquant(0, (const char *const[]){"-q", "imatrix", "merge", "--force", a, b, c, NULL});
    assert_string_equal(err, "");
    free(err);
    unlink(a), unlink(b), unlink(c);
}

TEST(test_what_is_in_the_way) {
    const char *out = in_folder(folder, "out.dat"), *left = in_folder(folder, ".out.dat.imatrix");
    write_whole(left, "left by a crash", 15);
    GQUANT(0, "imatrix", "convert", matrix, out);
    assert_same_numbers(matrix, out);
    GQUANT_SAYS(1, "--force", "imatrix", "convert", matrix, out);
    GQUANT_SAYS(1, "is one of the inputs", "imatrix", "merge", "--force", out, matrix, out);
    assert_same_numbers(matrix, out);
    unlink(out), unlink(left);
    assert_int_equal(count_files(folder), 2);
}

TEST(test_usage) {
    GQUANT_SAYS(2, "show, merge or convert", "imatrix", "polish", matrix);
    GQUANT_SAYS(2, "usage", "imatrix", "convert", matrix);

    GQUANT_SAYS(1, "model.gguf", "imatrix", "show", source);
    assert_int_equal(count_files(folder), 2);
}

int main(void) { return tests_run(set_up, tear_down); }
