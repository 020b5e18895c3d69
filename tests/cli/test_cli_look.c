/* info, compare and verify. */
#include <math.h>

#include "cli/report/report.h"
#include "tests/support/one_model.h"

static void expect(const char *mention, int status, const char *const *words) {
    char *out = output(status, words);
    if (!strstr(out, mention)) fail_msg("%s: expected \"%s\" in: %s", words[0], mention, out);
    free(out);
}
#define EXPECT(mention, status, ...) expect(mention, status, (const char *const[]){__VA_ARGS__, NULL})

/* ---- info ---- */

static const json *named(const json *list, const char *member, const char *name) {
    const json *found = json_named(list, member, name);
    if (!found) fail_msg("no %s %s", member, name);
    return found;
}

TEST(test_info) {
    EXPECT("general.architecture", 0, "info", source);
    EXPECT("blk.1.ffn_down.weight", 0, "info", source);
    char *text = OUTPUT(0, "info", "--json", source);
    json *j = json_parse(text);
    model_source m = open_model(source);
    assert_int_equal(json_need(j, "tensors")->n, m.n_tensors);
    assert_int_equal(json_need(j, "metadata")->n, gguf_container_of(&m)->shards[0].n_kv);
    for (uint64_t i = 0; i < m.n_tensors; i++) {
        const json *t = named(json_need(j, "tensors"), "name", m.tensors[i]->name);
        assert_string_equal(json_text(t, "type", ""), m.tensors[i]->type->name);
        assert_true(json_number(t, "bytes", 0) == (double)m.tensors[i]->size);
        assert_true(json_number(t, "offset", 0) == (double)m.tensors[i]->offset);
    }
    const json *metadata = json_need(j, "metadata");
    assert_string_equal(json_text(named(metadata, "key", "general.architecture"), "value", ""), "llama");
    assert_true(json_number(named(metadata, "key", "llama.embedding_length"), "value", 0) == 256);
    const json *tokens = named(metadata, "key", "tokenizer.ggml.tokens");
    assert_true(json_number(tokens, "count", 0) == 1024);
    assert_string_equal(json_need(tokens, "values")->items[1].text, "<s>");
    model_close(&m);
    json_free(j), free(text);
    GQUANT_SAYS(1, "absent", "info", in_folder(folder, "absent"));
}

/* Every kind of value, lists in lists, and texts that no terminal should see. */
TEST(test_info_values) {
    const char *path = in_folder(folder, "odd.gguf");
    model *m = model_new("odd", 1);
    int8_t small = -7;
    uint64_t large = UINT64_MAX;
    double half = 0.5;
    uint8_t yes = 1;
    static const uint8_t nested[] = {9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                                     0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 6};
    model_set(m, "odd.i8", GGUF_INT8, &small, 1);
    model_set(m, "odd.u64", GGUF_U64, &large, 8);
    model_set(m, "odd.f64", GGUF_FLOAT64, &half, 8);
    model_set(m, "odd.bool", GGUF_BOOL, &yes, 1);
    model_set(m, "odd.nested", GGUF_ARRAY, nested, sizeof nested);
    model_set_string(m, "odd.text", "\033]0;owned\a</script>");
    model_add(m, "a.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_save(m, path);
    char *text = OUTPUT(0, "info", path);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "18446744073709551615"));
    free(text);
    text = OUTPUT(0, "info", "--json", path);
    json *j = json_parse(text);
    const json *metadata = json_need(j, "metadata");
    assert_true(json_number(named(metadata, "key", "odd.i8"), "value", 0) == -7);
    assert_true(json_number(named(metadata, "key", "odd.f64"), "value", 0) == 0.5);
    assert_true(json_yes(named(metadata, "key", "odd.bool"), "value"));
    assert_string_equal(json_text(named(metadata, "key", "odd.text"), "value", ""),
                        "\033]0;owned\a</script>");
    assert_true(json_number(named(metadata, "key", "odd.nested"), "count", 0) == 1);
    json_free(j), free(text);
    unlink(path);
}

/* ---- compare ---- */

TEST(test_compare_agrees_with_the_run) {
    const char *out = in_folder(folder, "out.gguf"), *a = in_folder(folder, "a.json"),
               *b = in_folder(folder, "b.json");
    GQUANT(0, "-q", "-r", a, source, out, "Q4_K_M");
    free(OUTPUT(0, "compare", "-q", "-r", b, "-t", "3", source, out));
    json *run = json_file(a), *compared = json_file(b);
    const json *tensors = json_need(&json_need(run, "outputs")->items[0], "tensors");
    for (size_t i = 0; i < tensors->n; i++) {
        const json *t = report_tensor(compared, json_text(&tensors->items[i], "name", ""));
        assert_non_null(t);
        assert_int_equal(json_yes(t, "measured"), json_yes(&tensors->items[i], "measured"));
        if (!json_yes(t, "measured")) continue;
        assert_float_equal(json_number(t, "rmse", 0) / json_number(&tensors->items[i], "rmse", 1), 1, 1e-6);
        assert_true(json_number(t, "max_error", 0) == json_number(&tensors->items[i], "max_error", 1));
    }
    json_free(run), json_free(compared);
    EXPECT("no weight has changed", 0, "compare", source, source);
    EXPECT("Q4_K -> F16", 0, "compare", out, source);
    EXPECT("15 (Q4_K_M)", 0, "info", out);
    unlink(out), unlink(a), unlink(b);
}

/* Errors under importance are those of the run, whatever the shapes; of experts each has its own. */
TEST(test_compare_under_importance) {
    const char *in = in_folder(folder, "experts.gguf"), *data = in_folder(folder, "experts.dat"),
               *out = in_folder(folder, "out.gguf"), *a = in_folder(folder, "a.json"),
               *b = in_folder(folder, "b.json");
    make_model((const char *const[]){"--experts", "3", "--imatrix", data, in, NULL});
    GQUANT(0, "-q", "-r", a, "--imatrix", data, in, out, "Q4_K_M");
    EXPECT("weighted", 0, "compare", "-r", b, "--imatrix", data, "-t", "3", in, out);
    json *run = json_file(a), *compared = json_file(b);
    const json *tensors = json_need(&json_need(run, "outputs")->items[0], "tensors");
    for (size_t i = 0; i < tensors->n; i++) {
        const json *t = report_tensor(compared, json_text(&tensors->items[i], "name", ""));
        assert_string_equal(json_text(t, "importance", ""), json_text(&tensors->items[i], "importance", ""));
        double expected = json_number(&tensors->items[i], "weighted_error", -1);
        if (expected < 0) continue;
        assert_float_equal(json_number(t, "weighted_error", 0) / expected, 1, 1e-6);
    }
    assert_string_equal(json_text(compared, "imatrix", ""), "experts.dat");
    assert_float_equal(json_number(&json_need(compared, "outputs")->items[0], "weighted_error", 0) /
                           json_number(&json_need(run, "outputs")->items[0], "weighted_error", 1),
                       1, 1e-6);
    json_free(run), json_free(compared);

    GQUANT_SAYS(1, "absent.dat", "compare", "--imatrix", in_folder(folder, "absent.dat"), in, out);
    unlink(in), unlink(data), unlink(out), unlink(a), unlink(b);
}

/* Some entries are of use, others of no tensor. */
TEST(data_of_another_model_are_warned_of) {
    const char *in = in_folder(folder, "in.gguf"), *out = in_folder(folder, "out.gguf"),
               *data = in_folder(folder, "part.dat");
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.9.attn_q.weight"};
    model *m = model_new("a", 1);
    model_add(m, names[0], GGUF_F32, (uint64_t[4]){32, 4}, NULL);
    model_save(m, in);
    quantize(in, out, "Q8_0", 1);
    float values[32];
    for (size_t i = 0; i < 32; i++) values[i] = 1;
    FILE *f = fopen(data, "wb");
    int32_t n = 2, calls = 1, columns = 32;
    fwrite(&n, 4, 1, f);
    for (size_t i = 0; i < 2; i++) {
        int32_t length = (int32_t)strlen(names[i]);
        fwrite(&length, 4, 1, f), fwrite(names[i], 1, (size_t)length, f);
        fwrite(&calls, 4, 1, f), fwrite(&columns, 4, 1, f), fwrite(values, 4, 32, f);
    }
    fclose(f);
    GQUANT_SAYS(0, "1 of its 2 entries is of no tensor of the model", "compare", "--imatrix", data, in, out);
    GQUANT_SAYS(0, "blk.9.attn_q.weight", "compare", "--imatrix", data, in, out);
    unlink(in), unlink(out), unlink(data);
}

TEST(test_compare_strangers) {
    const char *a = in_folder(folder, "a.gguf"), *b = in_folder(folder, "b.gguf");
    static const float bad[4] = {1, 2, INFINITY, 4};
    model *m = model_new("a", 1);
    model_add(m, "same.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_add(m, "shape.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_add(m, "mine.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_add(m, "blk.0.attn_q.weight", GGUF_F32, (uint64_t[4]){32, 4}, NULL);
    model_save(m, a);
    m = model_new("b", 1);
    model_add(m, "same.weight", GGUF_Q8_0, (uint64_t[4]){256, 4}, NULL);
    model_add(m, "shape.weight", GGUF_F32, (uint64_t[4]){256, 8}, NULL);
    model_add(m, "blk.0.attn_q.weight", GGUF_Q8_0, (uint64_t[4]){32, 4}, NULL);
    model_add(m, "yours\033.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    model_save(m, b);
    GQUANT_SAYS(0, "shape.weight has another shape", "compare", a, b);
    GQUANT_SAYS(0, "compared without it", "compare", "--imatrix", matrix, a, b);
    GQUANT_SAYS(0, "is it of another model?", "compare", "--imatrix", matrix, a, b);
    GQUANT_SAYS(0, "mine.weight is not in", "compare", a, b);
    GQUANT_SAYS(0, "yours\\x1b.weight is only in", "compare", a, b);
    GQUANT_SAYS(1, "no tensor", "compare", source, b);
    m = model_new("b", 1);
    model_add(m, "same.weight", GGUF_F32, (uint64_t[4]){4, 1}, bad);
    model_save(m, b);
    m = model_new("a", 1);
    model_add(m, "same.weight", GGUF_F16, (uint64_t[4]){4, 1}, (float[4]){1, 2, 3, 4});
    model_save(m, a);
    GQUANT_SAYS(1, "same.weight: element 2 is inf", "compare", a, b);
    unlink(a), unlink(b);
}

/* ---- verify ---- */

TEST(test_verify_every_type) {
    const char *out = in_folder(folder, "out.gguf"), *saved = in_folder(folder, "r.json");
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        GQUANT(0, "-q", "--force", "-r", saved, "--imatrix", matrix, source, out, gq_filetype_name(i));
        EXPECT("sound", 0, "verify", out);
        EXPECT("bytes as the report says", 0, "verify", out, "--report", saved);
    }
    unlink(out), unlink(saved);
}

/* A line per type tells how much was decoded in all ways, and how near the products were. */
TEST(test_verify_compares_types) {
    const char *out = in_folder(folder, "out.gguf");
    GQUANT(0, "-q", source, out, "Q4_K_M");
    EXPECT("\nQ4_K ", 0, "verify", out);
    EXPECT("\nQ6_K ", 0, "verify", out);
    char *text = OUTPUT(0, "verify", "--json", out);
    json *j = json_parse(text);
    const json *types = json_need(j, "types");
    assert_true(types->n >= 3);
    double tensors = 0;
    for (size_t i = 0; i < types->n; i++) {
        tensors += json_number(&types->items[i], "tensors", 0);
        assert_true(json_number(&types->items[i], "compared", 0) > 0);
        assert_true(json_number(&types->items[i], "worst_product", 2) < 1);
        assert_true(json_number(&types->items[i], "problems", 1) == 0);
    }
    assert_true(tensors == (double)json_need(j, "tensors")->n);
    json_free(j), free(text);
    unlink(out);
}

/* Change one byte of a tensor in a file. */
static void spoil(const char *path, const char *tensor, uint64_t at, uint8_t byte) {
    model_source m = open_model(path);
    uint64_t offset = model_tensor_named(&m, tensor)->offset;
    model_close(&m);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, (long)(offset + at), SEEK_SET);
    fputc(byte, f);
    fclose(f);
}

TEST(test_verify_checksums) {
    const char *out = in_folder(folder, "out.gguf"), *saved = in_folder(folder, "r.json");
    GQUANT(0, "-q", "--no-digests", "-r", saved, source, out, "Q4_K_M");
    EXPECT("the file has no digests, and no report (-r) was given\n", 0, "verify", out);
    spoil(out, "blk.1.ffn_up.weight", 100, 0x5A); /* a code: nothing but the checksum can tell */
    EXPECT("structurally sound", 0, "verify", out);
    EXPECT("blk.1.ffn_up.weight (Q4_K): its bytes have the CRC-32", 1, "verify", out, "--report", saved);
    unlink(out);

    GQUANT(0, "-q", "--prune-layers", "0", source, out, "Q4_K_M");
    EXPECT("listed in the report, but missing in the file", 1, "verify", out, "--report", saved);
    unlink(out);
    GQUANT(0, "-q", "-n", "--force", "-r", saved, source, out, "Q4_K_M");
    GQUANT(0, "-q", source, out, "Q4_K_M");
    GQUANT_SAYS(1, "no checksums", "verify", out, "--report", saved); /* a plan's report has none */
    GQUANT_SAYS(1, "absent", "verify", out, "--report", in_folder(folder, "absent.json"));
    unlink(out), unlink(saved);
}

/* The file has checksums of its own: a changed code and a changed norm, which is copied, are found by them.
 */
TEST(test_verify_compares_the_files_own_digests) {
    const char *out = in_folder(folder, "out.gguf"), *copy = in_folder(folder, "copy.gguf");
    static const char *const tensors[] = {"blk.1.ffn_up.weight", "blk.0.attn_norm.weight"};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        GQUANT(0, "-q", source, out, "Q4_K_M");
        EXPECT("bytes as the file's own digests say\nnot checked: values of the metadata; whether the model",
               0, "verify", out);
        GQUANT(0, "-q", out, copy, "COPY");
        EXPECT("bytes as the file's own digests say", 0, "verify", copy);
        spoil(out, tensors[i], 100, 0x15);
        EXPECT(tensors[i], 1, "verify", out);
        EXPECT("and gquant.digests in the file has", 1, "verify", out);
        EXPECT("1 problem in", 1, "verify", out);
        unlink(out), unlink(copy);
    }
}

TEST(test_verify_several_outputs) {
    const char *a = in_folder(folder, "a.gguf"), *b = in_folder(folder, "b.gguf"),
               *saved = in_folder(folder, "r.json");
    char one[4096], two[4096];
    snprintf(one, sizeof one, "%s=Q8_0", a), snprintf(two, sizeof two, "%s=Q4_0", b);
    GQUANT(0, "-q", "-r", saved, source, one, two);
    EXPECT("sound", 0, "verify", a, "--report", saved);
    EXPECT("sound", 0, "verify", b, "--report", saved);
    const char *other = in_folder(folder, "other.gguf");
    assert_int_equal(rename(b, other), 0);
    GQUANT_SAYS(1, "none named other.gguf", "verify", other, "--report", saved);
    unlink(a), unlink(other), unlink(saved);
}

TEST(test_verify_values_and_codes) {
    static const struct {
        uint32_t type;
        uint64_t at;
        uint8_t byte;
        const char *mention;
    } rows[] = {
        {GGUF_Q8_0, 34 + 1, 0x7C, "element 32 is"}, /* an infinite scale in the second block */
        {GGUF_Q4_K, 1, 0xFE, "is"},                 /* NaN as d */
        {GGUF_TQ2_0, 5, 0xC0, "byte 5 is 0xc0, not a valid TQ2_0 code"},
        {GGUF_TQ1_0, 50, 0xFF, "byte 50 is 0xff, not a valid TQ1_0 code"},
        {GGUF_MXFP4, 17, 255, "block 1: byte 0 is 0xff"},
        {GGUF_NVFP4, 2, 0x80, "byte 2 is 0x80"},
        {GGUF_F32, 7, 0x7F, "element 1 is"},
    };
    const char *path = in_folder(folder, "odd.gguf");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        model *m = model_new("odd", 1);
        float values[1024];
        for (int k = 0; k < 1024; k++) values[k] = k % 4 == 3 ? -1.5f : 1.5f;
        model_add(m, "a.weight", rows[i].type, (uint64_t[4]){256, 4}, values);
        model_add(m, "b.weight", rows[i].type, (uint64_t[4]){256, 4}, NULL);
        model_save(m, path);
        EXPECT("sound", 0, "verify", path);
        spoil(path, "a.weight", rows[i].at, rows[i].byte);
        if (rows[i].type == GGUF_F32) spoil(path, "a.weight", 6, 0xFF);
        EXPECT(rows[i].mention, 1, "verify", path);
        EXPECT("1 problem in 2 tensors", 1, "verify", "-t", "2", path);
    }
    unlink(path);
}

TEST(test_verify_damaged) {
    const char *path = in_folder(folder, "cut.gguf");
    size_t size;
    uint8_t *bytes = read_whole(source, &size);
    write_whole(path, bytes, size - 1000);
    GQUANT_SAYS(1, "truncated", "verify", path);
    free(bytes);
    unlink(path);
}

/* ---- reading reports ---- */

static bool parse(const char *text, size_t n, checksum_list *list, gq_error *e) {
    return checksums_parse(list, text, n, "r.json", "dir/m.gguf", false, e);
}

TEST(test_reports) {
    static const char good[] =
        "{\"x\": [1, {\"a\": [[]], \"b\": \"\\\"]\"}, null, -1.5e-3], \"outputs\": [{\"tensors\": "
        "[{\"crc32\": \"0000beef\", \"name\": \"a\\u00e9\\n\", \"z\": true}, "
        "{\"name\": \"b\", \"crc32\": \"ffffffff\"}], \"path\": \"/q/m.gguf\"}]} ";
    static const char *const bad[] = {
        "",
        "[]",
        "nonsense",
        "{\"outputs\": 3}",
        "{\"outputs\": []}",
        "{\"outputs\": [{\"tensors\": [{\"name\": \"a\"}]}]}",
        "{\"outputs\": [{\"tensors\": [{\"name\": \"a\", \"crc32\": \"12\"}]}]}",
        "{\"outputs\": [{\"tensors\": [{\"name\": \"a\", \"crc32\": \"0000000g\"}]}]}",
        "{\"a\": ]}",
        "{\"a\": \"\\q\"}",
        "{\"a\": \"\\u12\"}",
        "{\"a\": \"\n\"}",
        "{\"a\" 1}",
        "{\"outputs\": [{\"path\": \"x\"}, {\"path\": \"y\"}]}"};
    checksum_list list;
    gq_error e;
    if (!parse(good, strlen(good), &list, &e)) fail_msg("%s", e.text);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.items[0].name, "a\xc3\xa9\n");
    assert_int_equal(list.items[0].crc32, 0xbeef);
    assert_int_equal(list.items[1].crc32, 0xffffffff);
    checksums_free(&list);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse(bad[i], strlen(bad[i]), &list, &e)) fail_msg("accepted: %s", bad[i]);
        checksums_free(&list);
    }
    for (size_t n = strlen(good) - 1; n-- > 0;) { /* all beginnings; the last blank may go */
        assert_false(parse(good, n, &list, &e));
        checksums_free(&list);
    }
}

/* Neither depth nor many small things make a report of 1 MiB take the memory or the stack. */
TEST(test_hostile_reports) {
    enum { SIZE = (1 << 20) - 64 };
    static const char *const units[] = {"[", "{},", "[],", "1,", "\"a\",", "{\"\":", "{\"a\":1},"};
    char *text = malloc(SIZE + 64), head[] = "{\"outputs\":[";
    assert_non_null(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t unit = strlen(units[i]), n = sizeof head - 1;
        memcpy(text, head, n);
        for (; n + unit < SIZE; n += unit) memcpy(text + n, units[i], unit);
        memcpy(text + n, "0]}", 3);
        write_whole(in_folder(folder, "hostile.json"), text, n + 3);
        bounded(folder, (const char *const[]){"verify", "-r", "hostile.json", "model-F16.gguf", NULL});
        GQUANT_SAYS(1, "hostile.json", "verify", "-r", in_folder(folder, "hostile.json"), source);
    }
    free(text);
    unlink(in_folder(folder, "hostile.json"));
}

/* Names are any bytes; a report gives them back as they were. U+EF80 stands for the byte 0x80, so a name that
 * has it is escaped, too. */
TEST(test_names_in_reports) {
    static const char *const names[] = {"\xff\xfe.weight",
                                        "\xee\xbe\x80.weight",
                                        "\xef\xbf\xbd.weight",
                                        "\x80.weight",
                                        "cut\xe2\x82",
                                        "\xed\xa0\x80surrogate.weight",
                                        "\\xff<\x7f\"\x1b.weight",
                                        "\xf0\x9f\xa6\x99.weight"};
    enum { N = sizeof names / sizeof *names };
    const char *in = in_folder(folder, "names.gguf"), *out = in_folder(folder, "out.gguf"),
               *saved = in_folder(folder, "r.json");
    model *m = model_new("odd", 1);
    for (size_t i = 0; i < N; i++) model_add(m, names[i], GGUF_F32, (uint64_t[4]){256, 1 + i}, NULL);
    model_save(m, in);
    GQUANT(0, "-q", "-r", saved, in, out, "Q8_0");
    EXPECT("8 tensors, bytes as the report says", 0, "verify", "-r", saved, out);
    char *text = (char *)read_whole(saved, NULL);
    assert_non_null(strstr(text, "\"\\uEFFF\\uEFFE.weight\"")); /* as the manual says */
    assert_non_null(strstr(text, "\"\\uEFEE\\uEFBE\\uEF80.weight\""));
    assert_plain(text);
    for (const char *c = text; *c; c++) assert_true((unsigned char)*c < 0x7f && *c != '<');
    free(text);
    unlink(in), unlink(out), unlink(saved);
}

int main(void) { return tests_run(set_up, tear_down); }
