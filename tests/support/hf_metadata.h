/* Metadata converted from a synthetic folder, and comparisons with expected key-value pairs. */
#pragma once

#include "hf/folder/folder.h"
#include "hf/metadata/metadata.h"
#include "tests/support/folder.h"

typedef struct made_metadata {
    hf_folder folder;
    hf_config config;
    hf_metadata metadata;
    gq_error error;
    bool ok;
} made_metadata;

static made_metadata made; /* of the test that runs */

static inline void write_text(const char *name, const char *text) {
    write_whole(path(name), text, strlen(text));
}

/* Reads the folder's config.json; the caller adds the metadata. */
static inline void metadata_begin(const char *config) {
    made = (made_metadata){.error = {.text = ""}};
    write_text("config.json", config);
    made.ok = hf_folder_open(&made.folder, folder, &made.error) &&
              hf_config_read(&made.config, &made.folder, &made.error);
    if (!made.ok) print_message("%s\n", made.error.text);
    assert_true(made.ok);
    made.metadata.prefix = made.config.arch;
}

/* Releases what metadata_begin made: after every test. */
static inline int metadata_end(void **state) {
    (void)state;
    hf_metadata_free(&made.metadata), hf_config_free(&made.config), hf_folder_close(&made.folder);
    made = (made_metadata){.ok = false};
    return 0;
}

static inline const model_kv *metadata_of(const char *key, uint32_t type) {
    const model_kv *kv = hf_metadata_find(&made.metadata, key);
    if (!kv) print_message("no %s; %s\n", key, made.error.text);
    assert_non_null(kv);
    assert_int_equal(kv->type, type);
    return kv;
}

static inline uint32_t metadata_number(const char *key, uint32_t type) {
    uint32_t value;
    memcpy(&value, metadata_of(key, type)->value, 4);
    return value;
}

static inline void expect_u32(const char *key, uint32_t value) {
    assert_int_equal(metadata_number(key, GGUF_U32), value);
}

static inline void expect_f32(const char *key, float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    assert_int_equal(metadata_number(key, GGUF_FLOAT32), bits);
}

static inline void expect_bool(const char *key, bool value) {
    assert_int_equal(*metadata_of(key, GGUF_BOOL)->value, value);
}

static inline void expect_text(const char *key, const char *text) {
    const model_kv *kv = metadata_of(key, GGUF_STRING);
    assert_int_equal(kv->size, GGUF_STRING_HEADER + strlen(text));
    assert_memory_equal(kv->value + GGUF_STRING_HEADER, text, strlen(text));
}

static inline void expect_none(const char *key) { assert_null(hf_metadata_find(&made.metadata, key)); }

/* Compares an array of 4-byte numbers, or of booleans. */
static inline void expect_array(const char *key, uint32_t type, const void *values, uint64_t n) {
    const model_kv *kv = metadata_of(key, GGUF_ARRAY);
    size_t size = type == GGUF_BOOL ? 1 : 4;
    assert_memory_equal(kv->value, &type, 4);
    assert_memory_equal(kv->value + 4, &n, 8);
    assert_int_equal(kv->size, GGUF_ARRAY_HEADER + n * size);
    assert_memory_equal(kv->value + GGUF_ARRAY_HEADER, values, n * size);
}
#define expect_i32s(key, ...) \
    expect_array(key, GGUF_INT32, (const int32_t[]){__VA_ARGS__}, \
                 sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))
#define expect_flags(key, ...) \
    expect_array(key, GGUF_BOOL, (const uint8_t[]){__VA_ARGS__}, sizeof(const uint8_t[]){__VA_ARGS__})
