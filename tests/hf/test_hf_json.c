/* JSON of folders: what Python writes and jansson does not read. */
#include "hf/folder/folder.h"
#include "tests/support/support.h"

static json_t *parsed(const char *text) {
    gq_error e;
    json_t *v = hf_json_parse("file.json", text, strlen(text), 0, &e);
    if (!v) fail_msg("%s: %s", text, e.text);
    return v;
}

/* Nearly every tokenizer_config.json of transformers has this number. */
TEST(test_large_integers_are_no_numbers) {
    json_t *v =
        parsed("{\"model_max_length\": 1000000000000000019884624838656, \"a\": [-1000000000000000000000,1],"
               "\"b\":9223372036854775808}");
    assert_string_equal(json_string_value(json_object_get(v, "model_max_length")), "");
    json_t *a = json_object_get(v, "a");
    assert_string_equal(json_string_value(json_array_get(a, 0)), "");
    assert_int_equal(json_integer_value(json_array_get(a, 1)), 1);
    assert_string_equal(json_string_value(json_object_get(v, "b")), "");
    json_decref(v);
}

TEST(test_other_numbers_stay) {
    json_t *v = parsed(
        "{\"most\": 9223372036854775807, \"least\":-9223372036854775807, \"real\":12345678901234567890.5,"
        "\"power\":10000000000000000000e10, \"text\":\"-1000000000000000000000, NaN\", \"x\": NaN}");
    assert_true(json_integer_value(json_object_get(v, "most")) == INT64_MAX);
    assert_true(json_integer_value(json_object_get(v, "least")) == -INT64_MAX);
    assert_true(json_is_real(json_object_get(v, "real")) && json_is_real(json_object_get(v, "power")));
    assert_string_equal(json_string_value(json_object_get(v, "text")), "-1000000000000000000000, NaN");
    assert_string_equal(json_string_value(json_object_get(v, "x")), "");
    json_decref(v);
}

TEST(test_broken_numbers_stay_broken) {
    static const char *const texts[] = {"{\"a\":00000000000000000000001}",
                                        "{\"a\":99999999999999999999-1}",
                                        "{\"a\":--99999999999999999999}",
                                        "{\"a\":-}",
                                        "{\"a\":N}",
                                        "{\"a\":1e}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gq_error e;
        assert_null(hf_json_parse("file.json", texts[i], strlen(texts[i]), 0, &e));
        assert_non_null(strstr(e.text, "file.json: line 1, column"));
    }
}

/* Pairs of words become one text, and nothing else changes: not what is no pair, nor the lines of errors. */
TEST(pairs_under_a_key_are_joined) {
    static const char *const rows[][2] = {
        {"{\"merges\":[[\"a\",\"b\"]]}", "{\"merges\":[\"a b\"]}"},
        {"{\"m\":{ \"merges\" :\n[ [\"a\" , \"b\"],[\"\\\"c\\\\\",\"\xc4\xa0\"] ]},\"x\":[[\"a\",\"b\"]]}",
         "{\"m\":{\"merges\":[\"a b\",\"\\\"c\\\\ \xc4\xa0\"]},\"x\":[[\"a\",\"b\"]]}"},
        {"{\"merges\":[\"a b\",[\"c\",\"d\"],[\"e\",\" \"],[\"\\u0020\",\"e\"],[\"f\",\"g\"]]}",
         "{\"merges\":[\"a b\",\"c d\",[\"e\",\" \"],[\" \",\"e\"],\"f g\"]}"},
        {"{\"merges\":[[\"\",\"a\"],[\"a\"],[],[\"a\",\"b\",\"c\"],[\"a\",1],[\"d\",\"e\"]]}",
         "{\"merges\":[[\"\",\"a\"],[\"a\"],[],[\"a\",\"b\",\"c\"],[\"a\",1],[\"d\",\"e\"]]}"},
        {"{\"x\":\"merges\",\"y\":[[\"a\",\"b\"]],\"merges\":7}",
         "{\"x\":\"merges\",\"y\":[[\"a\",\"b\"]],\"merges\":7}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = strdup(rows[i][0]);
        hf_json_join_pairs(text, strlen(text), "merges");
        json_t *found = parsed(text), *expected = parsed(rows[i][1]);
        if (!json_equal(found, expected)) fail_msg("%s became %s", rows[i][0], text);
        json_decref(found), json_decref(expected), free(text);
    }
    char broken[] = "{\"merges\":[[\"a\",\n\n\"b\"],\n[\"c\",\"d\"]],\n!}";
    gq_error e;
    hf_json_join_pairs(broken, strlen(broken), "merges");
    assert_null(hf_json_parse("file.json", broken, strlen(broken), 0, &e));
    assert_non_null(strstr(e.text, "line 5"));
}

/* A text that was no JSON does not become some, wherever it is damaged or ends. */
TEST(damaged_pairs_stay_damaged) {
    static const char whole[] = "{\"merges\":[[\"a\\\"\",\"b\"], [\"c\" ,\"d\"],\"e f\"],\"x\":1}";
    static const char put[] = "\"[],:\\ {}a";
    size_t n = strlen(whole);
    for (size_t at = 0; at < n; at++)
        for (const char *c = put; c <= put + strlen(put); c++) {
            char text[sizeof whole], joined[sizeof whole];
            memcpy(text, whole, sizeof whole);
            if (*c) text[at] = *c;
            size_t length = *c ? n : at;
            memcpy(joined, text, sizeof text);
            hf_json_join_pairs(joined, length, "merges");
            json_t *a = json_loadb(text, length, 0, NULL), *b = json_loadb(joined, length, 0, NULL);
            if (!a != !b) fail_msg("%.*s became %.*s", (int)length, text, (int)length, joined);
            json_decref(a), json_decref(b);
        }
}

int main(void) { return tests_run(NULL, NULL); }
