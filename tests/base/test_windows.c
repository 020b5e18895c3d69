/* Texts and ids as windows of tokens: where they begin and end, and what is refused. */
#include "study/sweep/sweep.h"
#include "tests/support/folder.h"
#include "tests/support/token_model.h"

static const windows_limits limits = {.memory = 1 << 30};

/* Letters a to h are 0 to 7, <s> is 8 and begins a text where `begins`. */
static model_source opened(bool begins) {
    const char *name = path(begins ? "begins.gguf" : "plain.gguf");
    model *m = model_llama(1);
    token_model_letters(m, begins, 512);
    model_save(m, name);
    return open_model(name);
}

static void expect(model_source *m, gq_text text, size_t left_over, size_t n, const uint32_t *ids) {
    text_windows w;
    warning_list warnings = {0};
    gq_error e;
    if (!windows_read(&w, &text, m, 512, &limits, &warnings, &e)) fail_msg("%s", e.text);
    assert_int_equal(w.n * w.context, n);
    assert_int_equal(w.left_over, left_over);
    assert_memory_equal(w.ids, ids, n * sizeof *ids);
    assert_int_equal(warnings.n, 0);
    windows_free(&w), warnings_free(&warnings);
}
#define EXPECT(m, left_over, text, ...) \
    expect(m, text, left_over, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), \
           (const uint32_t[]){__VA_ARGS__})
#define TEXT(from, ...) \
    ((gq_text){.name = "text", .bytes = (from), .n = strlen(from), .context = 4, __VA_ARGS__})

TEST(windows_begin_as_texts_do) {
    model_source plain = opened(false), begins = opened(true);
    EXPECT(&plain, 2,
           TEXT("abcdefgh"
                "ab"),
           0, 1, 2, 3, 4, 5, 6, 7);
    /* BOS a b c, then d e f g, whose first token gives way; h a b are left. */
    EXPECT(&begins, 3, TEXT("abcdefghab"), 8, 0, 1, 2, 8, 4, 5, 6);
    EXPECT(&begins, 0, TEXT("abcdefghab", .tokens = 8), 8, 0, 1, 2, 8, 4, 5, 6);
    EXPECT(&begins, 3, TEXT("abcdefghab", .tokens = 7), 8, 0, 1, 2);
    EXPECT(&plain, 0, TEXT("<s>abc", .parse_special = true), 8, 0, 1, 2);
    model_close(&plain), model_close(&begins);
}

TEST(ids_are_taken_as_they_are) {
    model_source begins = opened(true);
    EXPECT(&begins, 1, TEXT(" 7\t511\n\r\n007 0 5", .ids = true), 7, 511, 7, 0);
    model_close(&begins);
}

/* The text's BOS stays where it is, and no other is put anywhere. A window that ends with the text is left
 * out, unless it is the only one. */
TEST(windows_overlap) {
    model_source begins = opened(true);
    static const uint32_t expected[] = {8, 0, 1, 2, 1, 2, 3, 4, 3, 4, 5, 6};
    static const struct {
        const char *text;
        size_t n, left_over;
    } cases[] = {{"abc", 1, 0},    {"abcd", 1, 1},    {"abcde", 1, 2},
                 {"abcdef", 2, 1}, {"abcdefg", 2, 2}, {"abcdefgh", 3, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_windows w;
        warning_list warnings = {0};
        gq_error e;
        gq_text text = TEXT(cases[i].text);
        if (!windows_read_overlapping(&w, &text, 2, &begins, 512, &limits, &warnings, &e))
            fail_msg("%s", e.text);
        assert_int_equal(w.n, cases[i].n);
        assert_int_equal(w.left_over, cases[i].left_over);
        assert_memory_equal(w.ids, expected, w.n * w.context * sizeof *w.ids);
        windows_free(&w), warnings_free(&warnings);
    }
    model_close(&begins);
}

static void refuse(model_source *m, const char *expected, gq_text text) {
    text_windows w;
    warning_list warnings = {0};
    gq_error e = {0};
    if (windows_read(&w, &text, m, 512, &limits, &warnings, &e)) fail_msg("taken, in place of: %s", expected);
    if (!strstr(e.text, expected)) fail_msg("'%s' without '%s'", e.text, expected);
    warnings_free(&warnings);
}

TEST(what_cannot_be_windows_is_told) {
    model_source plain = opened(false);
    refuse(&plain, "text: is empty", TEXT(""));
    refuse(&plain, "text: has 3 tokens, fewer than one window of 4", TEXT("abc"));
    refuse(&plain, "2 tokens are fewer than one window of 4", TEXT("abcdefgh", .tokens = 2));
    refuse(&plain, "text: has 0 tokens", TEXT(" \n", .ids = true));
    refuse(&plain, "text, line 2: found '1,2', expected a token id", TEXT("0 1\n1,2 3\n", .ids = true));
    refuse(&plain, "'-1'", TEXT("-1", .ids = true));
    gq_text nul = {.name = "text", .bytes = "0 1\0002 3\n", .n = 8, .context = 4, .ids = true};
    refuse(&plain, "'1\\x002'", nul);
    refuse(&plain, "'4294967296'", TEXT("0 4294967296 1 2", .ids = true));
    refuse(&plain, "'99999999999999999999999'", TEXT("99999999999999999999999", .ids = true));
    refuse(&plain, "token 3 is 512, but the model has 512 tokens, 0 to 511", TEXT("0 1 512 2", .ids = true));
    model_close(&plain);
    model_source none;
    model_save(model_llama(1), path("none.gguf"));
    none = open_model(path("none.gguf"));
    refuse(&none, "ids of tokens can take the place of a text", TEXT("abcd"));
    model_close(&none);
}

/* Bytes of any kind have tokens. */
TEST(what_is_no_text_is_told) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *says;
        bool refused;
    } rows[] = {{"\xff\xfe"
                 "a\0b\0c\0d",
                 9, "text is UTF-16: convert it", true},
                {"\xfe\xff\0a\0b\0c\0d", 10, "text is UTF-16", true},
                {"\xff\xfe\0\0abcd", 8, "text is UTF-32", true},
                {"\x1f\x8b\10abcd", 7, "text is compressed (gzip)", true},
                {"GGUF\3\0\0\0abcd", 12, "text is a GGUF model", true},
                {"PK\3\4abcd", 8, "text is a zip archive", true},
                {"abcd\0a", 6,
                 "text: 1 of its first 6 bytes are not UTF-8 or are zero, the first at offset 4", false},
                {"a\0b\0c\0d\0", 8, "text: 4 of its first 8 bytes", false},
                {"abcd\xe9", 5, "text: 1 of its first 5 bytes", false},
                {"abcd\xc3\xa9", 6, NULL, false},
                {"GGUF abcd PK", 12, NULL, false}};
    model_source plain = opened(false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gq_text text = {.name = "text", .bytes = rows[i].bytes, .n = rows[i].n, .context = 4};
        if (rows[i].refused) {
            refuse(&plain, rows[i].says, text);
            continue;
        }
        text_windows w;
        warning_list warnings = {0};
        gq_error e;
        if (!windows_read(&w, &text, &plain, 512, &limits, &warnings, &e)) fail_msg("%s", e.text);
        const char *said = warnings.n ? warnings.items[0] : "";
        if (rows[i].says ? !strstr(said, rows[i].says) : strstr(said, "UTF-8") != NULL)
            fail_msg("%zu: %s", i, said);
        windows_free(&w), warnings_free(&warnings);
    }
    model_close(&plain);
}

TEST(bytes_without_a_token_are_counted) {
    model_source plain = opened(false);
    text_windows w;
    warning_list warnings = {0};
    gq_error e;
    assert_true(windows_read(&w, &TEXT("abzzcd"), &plain, 512, &limits, &warnings, &e));
    assert_int_equal(warnings.n, 1);
    assert_non_null(strstr(warnings.items[0], "text: 2 bytes have no token"));
    windows_free(&w), warnings_free(&warnings);
    model_close(&plain);
}

/* A text of 64 GiB with hardly a byte on the disk, behind some lines. */
static void sparse_text(const char *name) {
    FILE *f = fopen(path(name), "w");
    assert_non_null(f);
    for (int i = 0; i < 100000; i++) fputs("abcd\n", f);
    assert_int_equal(ftruncate(fileno(f), (off_t)64 << 30), 0);
    fclose(f);
}

/* No more of a file is read than the tokens need: of this one nobody could read all. */
TEST(a_file_is_read_as_far_as_tokens_are_wanted) {
    model_source plain = opened(false);
    sparse_text("sparse");
    char *name = strdup(path("sparse"));
    text_windows w;
    warning_list warnings = {0};
    gq_error e;
    gq_text text = {.name = name, .context = 4, .tokens = 4};
    if (!windows_read(&w, &text, &plain, 512, &limits, &warnings, &e)) fail_msg("%s", e.text);
    assert_int_equal(w.n, 1);
    assert_memory_equal(w.ids, ((uint32_t[]){0, 1, 2, 3}), 16);
    windows_free(&w), warnings_free(&warnings);
    text = (gq_text){.name = name, .context = 4, .ids = true};
    refuse(&plain, "line 1: found 'abcd'", text);
    free(name);
    model_close(&plain);
}

static bool stop_at_once(void *user) { return ++*(int *)user > 3; }

TEST(reading_stops_when_asked) {
    model_source plain = opened(false);
    int asked = 0;
    gq_callbacks callbacks = {.cancelled = stop_at_once, .user = &asked};
    windows_limits stopping = {.memory = 1 << 30, .callbacks = &callbacks};
    sparse_text("endless");
    char *name = strdup(path("endless"));
    for (int i = 0; i < 2; i++) {
        text_windows w;
        warning_list warnings = {0};
        gq_error e = {0};
        gq_text text = {.name = name, .context = 4};
        assert_false(windows_read(&w, &text, &plain, 512, &stopping, &warnings, &e));
        assert_int_equal(e.status, GQ_INTERRUPTED);
        assert_true(asked < 9);
        asked = 0;
        warnings_free(&warnings);
    }
    free(name);
    model_close(&plain);
}

int main(void) { return tests_run(folder_make, folder_remove); }
