/* Models that are written from arrays, and read again. */
#include <math.h>

#include "tests/support/folder.h"

#define WHOLE(n) \
    { .kind = GQ_UNSIGNED, .as_unsigned = (n) }
#define SIGNED(n) \
    { .kind = GQ_SIGNED, .as_signed = (n) }
#define NUMBER(x) \
    { .kind = GQ_FLOAT, .as_float = (x) }
#define TEXT(t) \
    { .kind = GQ_TEXT, .text = (t), .length = sizeof(t) - 1 }

static void refused(bool done, const gq_error *e, const char *says) {
    if (done || !strstr(e->text, says)) fail_msg("'%s', expected '%s'", done ? "done" : e->text, says);
}

static const struct {
    const char *type;
    gq_value value;
    bool fits;
} values[] = {
    {"u8", WHOLE(255), true},         {"u8", WHOLE(256), false},
    {"u8", SIGNED(-1), false},        {"i8", SIGNED(-128), true},
    {"i8", SIGNED(-129), false},      {"i8", WHOLE(128), false},
    {"u16", SIGNED(65535), true},     {"u16", WHOLE(65536), false},
    {"i16", SIGNED(-32768), true},    {"i16", SIGNED(32768), false},
    {"u32", WHOLE(UINT32_MAX), true}, {"u32", WHOLE(UINT64_C(1) << 32), false},
    {"i32", SIGNED(INT32_MIN), true}, {"i32", SIGNED((int64_t)INT32_MIN - 1), false},
    {"u64", WHOLE(UINT64_MAX), true}, {"u64", SIGNED(-1), false},
    {"i64", SIGNED(INT64_MIN), true}, {"i64", WHOLE(UINT64_C(1) << 63), false},
    {"f32", NUMBER(0.5), true},       {"f32", WHOLE(1), false},
    {"f64", NUMBER(0.1), true},       {"bool", {.kind = GQ_BOOL, .as_bool = true}, true},
    {"bool", WHOLE(1), false},        {"string", TEXT("a\0b"), true},
    {"string", WHOLE(1), false},      {"array", WHOLE(1), false},
    {"u7", WHOLE(1), false},          {"f32", NUMBER(1e300), false},
    {"f32", NUMBER(-1e39), false},    {"f32", NUMBER(-INFINITY), true},
    {"f64", NUMBER(1e300), true},
};
enum { VALUES = sizeof values / sizeof *values };

static void same_value(const gq_value *found, const gq_value *expected) {
    if (expected->kind == GQ_TEXT) {
        assert_int_equal(found->length, expected->length);
        assert_memory_equal(found->text, expected->text, expected->length);
    } else if (expected->kind == GQ_FLOAT) {
        assert_true(found->as_float == expected->as_float);
    } else if (expected->kind == GQ_BOOL) {
        assert_true(found->as_bool == expected->as_bool);
    } else {
        assert_true(found->as_unsigned == expected->as_unsigned);
    }
}

/* Each by itself, and as a list of three. */
TEST(metadata) {
    gq_error e;
    gq_gguf_builder *d = gq_gguf_builder_new(&e);
    char key[32];
    for (size_t i = 0; i < VALUES; i++) {
        const gq_value three[] = {values[i].value, values[i].value, values[i].value};
        snprintf(key, sizeof key, "one.%zu", i);
        assert_true(gq_gguf_builder_set(d, key, values[i].type, false, three, 1, &e) == values[i].fits);
        if (!values[i].fits) assert_non_null(strstr(e.text, key));
        snprintf(key, sizeof key, "list.%zu", i);
        assert_true(gq_gguf_builder_set(d, key, values[i].type, true, three, 3, &e) == values[i].fits);
    }
    refused(gq_gguf_builder_set(d, "two", "u8", false, &values[0].value, 2, &e), &e,
            "expected one value, found 2");
    assert_true(gq_gguf_builder_set(d, "empty", "string", true, NULL, 0, &e));
    assert_true(gq_gguf_builder_set(d, "gone", "u8", false, &values[0].value, 1, &e));
    gq_gguf_builder_remove(d, "gone");
    if (!gq_gguf_builder_write(d, path("metadata.gguf"), false, &e)) fail_msg("%s", e.text);
    refused(gq_gguf_builder_write(d, path("metadata.gguf"), false, &e), &e, "already exists");
    gq_gguf_builder_free(d);

    gq_model *m = gq_model_open(path("metadata.gguf"), &e);
    if (!m) fail_msg("%s", e.text);
    size_t n, at = 0;
    const gq_metadata *found = gq_model_metadata(m, &n);
    for (size_t i = 0; i < VALUES; i++) {
        gq_value three[4];
        if (!values[i].fits) continue;
        assert_int_equal(gq_metadata_values(&found[at], three, 1), 1);
        assert_true(!found[at].list && !strcmp(found[at].type, values[i].type));
        same_value(three, &values[i].value);
        assert_int_equal(gq_metadata_values(&found[++at], three, 4), 3);
        assert_true(found[at++].list);
        same_value(&three[2], &values[i].value);
    }
    assert_int_equal(at + 1, n);
    assert_int_equal(gq_model_find_key(m, "empty"), at);
    assert_true(gq_model_find_key(m, "gone") == SIZE_MAX && gq_model_find(m, "gone") == SIZE_MAX);
    gq_model_close(m);
}

/* A model that is taken apart and put together again has the same bytes. */
TEST(the_same_again) {
    gq_error e;
    size_t n, a_size, b_size;
    model_save(model_llama(2), path("a.gguf"));
    gq_model *m = gq_model_open(path("a.gguf"), &e);
    gq_gguf_builder *d = gq_gguf_builder_new(&e);
    const gq_stored *t = gq_model_tensors(m, &n);
    void **data = calloc(n, sizeof *data);
    assert_true(gq_gguf_builder_copy(d, m, &e));
    for (size_t i = 0; i < n; i++) {
        data[i] = malloc(t[i].bytes);
        assert_true(gq_model_read_stored(m, i, 0, t[i].n_weights, data[i], &e));
        if (!gq_gguf_builder_add(d, t[i].name, t[i].n_dims, t[i].ne, t[i].type, data[i], t[i].bytes, &e))
            fail_msg("%s", e.text);
    }
    if (!gq_gguf_builder_write(d, path("b.gguf"), false, &e)) fail_msg("%s", e.text);
    uint8_t *a = read_whole(path("a.gguf"), &a_size), *b = read_whole(path("b.gguf"), &b_size);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    refused(gq_gguf_builder_add(d, t[0].name, t[0].n_dims, t[0].ne, t[0].type, data[0], t[0].bytes, &e) &&
                gq_gguf_builder_write(d, path("c.gguf"), false, &e),
            &e, t[0].name);
    assert_false(exists(path("c.gguf")));
    for (size_t i = 0; i < n; i++) free(data[i]);
    free(data), free(a), free(b);
    gq_gguf_builder_free(d), gq_model_close(m);
}

TEST(tensors_that_cannot_be) {
    gq_error e;
    gq_gguf_builder *d = gq_gguf_builder_new(&e);
    static const float x[64];
    static const struct {
        const char *name;
        uint32_t n_dims;
        uint64_t ne[4];
        uint32_t type;
        size_t bytes;
        const char *says;
    } rows[] = {
        {"t", 1, {64}, GGUF_F32, 255, "255 bytes, expected 256 as F32"},
        {"t", 0, {64}, GGUF_F32, 256, "0 dimensions"},
        {"t", 5, {64}, GGUF_F32, 256, "5 dimensions"},
        {"t", 2, {48, 2}, GGUF_Q4_0, 54, "tensor 't'"},
        {"t", 1, {64}, 4, 256, "unknown tensor type 4"},
        {"t", 4, {1 << 30, 1 << 30, 1 << 30, 1 << 30}, GGUF_F32, 0, "tensor 't'"},
        {"", 1, {64}, GGUF_F32, 256, "0 bytes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(gq_gguf_builder_add(d, rows[i].name, rows[i].n_dims, rows[i].ne, rows[i].type, x,
                                    rows[i].bytes, &e),
                &e, rows[i].says);
    /* None of them has left anything; padding follows the alignment. */
    const gq_value alignment = WHOLE(1 << 14);
    assert_true(gq_gguf_builder_set(d, "general.alignment", "u32", false, &alignment, 1, &e));
    assert_true(gq_gguf_builder_add(d, "a", 1, (uint64_t[]){64}, GGUF_F32, x, 256, &e));
    assert_true(gq_gguf_builder_add(d, "b", 1, (uint64_t[]){63}, GGUF_F32, x, 252, &e));
    assert_true(gq_gguf_builder_write(d, path("padded.gguf"), false, &e));
    gq_model *m = gq_model_open(path("padded.gguf"), &e);
    size_t n;
    const gq_stored *t = gq_model_tensors(m, &n);
    assert_true(n == 2 && t[1].offset - t[0].offset == 1 << 14 && gq_model_summary(m)->file_bytes == 3 << 14);
    gq_model_close(m), gq_gguf_builder_free(d);
}

TEST(reading_beyond) {
    gq_error e;
    float x[512];
    gq_model *m = gq_model_open(path("a.gguf"), &e);
    size_t n, tensor = 0;
    const gq_stored *t = gq_model_tensors(m, &n);
    assert_true(gq_model_read(m, tensor, 0, 32, x, &e));
    refused(gq_model_read(m, n, 0, 32, x, &e), &e, "does not exist");
    refused(gq_model_read(m, tensor, t->n_weights, 32, x, &e), &e, t->name);
    refused(gq_model_read(m, tensor, UINT64_MAX - 31, 32, x, &e), &e, t->name);
    refused(gq_model_read_stored(m, tensor, 32, t->n_weights, x, &e), &e, t->name);
    gq_model_close(m);
    quantize(path("a.gguf"), path("q.gguf"), "Q8_0", 1);
    m = gq_model_open(path("q.gguf"), &e);
    t = gq_model_tensors(m, &n);
    while (t[tensor].type != GGUF_Q8_0) tensor++;
    refused(gq_model_read(m, tensor, 16, 32, x, &e), &e, "in blocks of 32");
    refused(gq_model_read(m, tensor, 0, 33, x, &e), &e, "in blocks of 32");
    gq_model_close(m);
}

int main(void) { return tests_run(folder_make, folder_remove); }
