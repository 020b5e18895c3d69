/* The reader against files made by hand: header and metadata, what it takes, what it refuses, and that
 * nothing else happens. */
#include <sys/stat.h>

#include "gguf/model.h"
#include "tests/support/gguf_bytes.h"

/* A file with one pair, whose value the caller puts behind. */
static bytes one_key(const char *key, uint32_t type) {
    bytes b = file_head(3, 0, 1);
    put_key(&b, key, type);
    return b;
}

static bytes text_file(const char *text, size_t n) {
    bytes b = {0};
    put(&b, text, n);
    return b;
}

TEST(other_formats_are_named) {
    assert_refused(text_file("", 0), "empty", "");
    assert_refused(text_file("G", 1), "4 bytes", "only 1");
    assert_refused(text_file("lmgg\1\0\0\0", 8), "ggml", "older");
    assert_refused(text_file("fmgg\1\0\0\0", 8), "ggmf", "older");
    assert_refused(text_file("tjgg\3\0\0\0", 8), "ggjt", "older");
    assert_refused(text_file("PK\3\4....", 8), "zip", "");
    assert_refused(text_file("\x1f\x8b\x08\0....", 8), "gzip", "");
    assert_refused(text_file("\x20\0\0\0\0\0\0\0{\"a\":", 13), "safetensors", "");
    assert_refused(text_file("version https://git-lfs.github.com/spec/v1\noid", 46), "Git LFS",
                   "git lfs pull");
    assert_refused(text_file("version 7", 9), "not a GGUF file", "76 65 72 73");
    assert_refused(text_file("FUGG", 4), "46 55 47 47", "47 47 55 46");
}

TEST(versions_2_and_3_are_read) {
    assert_accepted(file_head(2, 0, 0));
    assert_accepted(file_head(3, 0, 0));
    assert_refused(file_head(0, 0, 0), "version 0", "2 or 3");
    assert_refused(file_head(1, 0, 0), "version 1", "not supported");
    assert_refused(file_head(4, 0, 0), "version 4", "unknown");
    assert_refused(file_head(0x03000000, 0, 0), "big-endian", "0x03000000");
    assert_refused(file_head(0x00010000, 0, 0), "big-endian", "");
    assert_refused(file_head(UINT32_MAX, 0, 0), "unknown", "");
}

TEST(counts_are_compared_with_the_bytes_that_follow) {
    static const uint64_t counts[] = {UINT64_MAX,          1ull << 63, (1ull << 63) + 1, UINT64_MAX / 14 + 1,
                                      UINT64_MAX / 33 + 1, 1ull << 32, 1000000000,       31};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        bytes b = file_head(3, counts[i], 0);
        put_zeros(&b, 1000);
        assert_refused(b, "tensors", "at byte 8");
        b = file_head(3, 0, counts[i] == 31 ? 72 : counts[i]);
        put_zeros(&b, 1000);
        assert_refused(b, "key-value pairs", "at byte 16");
        b = file_head(3, counts[i], 1); /* a pair leaves room for 29 tensors */
        put_zeros(&b, 1000 - 18);
        assert_refused(b, "tensors", "at byte 8");
    }
}

TEST(keys_have_1_to_65535_bytes_and_no_nul) {
    char *key = malloc(65538);
    memset(key, 'k', 65537);
    key[65535] = 0;
    bytes b = one_key(key, GGUF_U8);
    put(&b, "\7", 1);
    assert_accepted(b);
    key[65535] = 'k', key[65536] = 0;
    b = one_key(key, GGUF_U8);
    put(&b, "\7", 1);
    assert_refused(b, "65536 bytes", "65535");
    b = one_key("", GGUF_U8);
    put_zeros(&b, 9);
    assert_refused(b, "key 1 of 1", "empty");
    b = file_head(3, 0, 1);
    put_u64(&b, 19);
    put(&b, "general.alignment\0x", 19);
    put_u32(&b, GGUF_U32);
    put_u32(&b, 64);
    assert_refused(b, "NUL", "position 17");
    b = file_head(3, 0, 1);
    put_u64(&b, UINT64_MAX - 8);
    put_zeros(&b, 20);
    assert_refused(b, "key 1 of 1", "18446744073709551607");
    b = one_key("Some Odd-Key.schl\xc3\xbcssel\xff", GGUF_U8);
    put(&b, "\7", 1);
    assert_accepted(b);
    free(key);
}

TEST(a_key_may_occur_once) {
    bytes b = file_head(3, 0, 3);
    put_key(&b, "my.key", GGUF_U8), put(&b, "a", 1);
    put_key(&b, "my.other", GGUF_U8), put(&b, "b", 1);
    put_key(&b, "my.key", GGUF_INT8), put(&b, "c", 1);
    assert_refused(b, "my.key", "duplicate");
}

TEST(strings_end_in_the_file) {
    static const uint64_t lengths[] = {5,         1000,       1ull << 30, 1ull << 40,
                                       INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bytes b = one_key("my.key", GGUF_STRING);
        put_u64(&b, lengths[i]);
        put(&b, "abcd", 4);
        assert_refused(b, "my.key", "only 4 are left");
    }
    bytes b = one_key("my.key", GGUF_STRING);
    put_text(&b, "");
    assert_accepted(b);
}

TEST(unknown_value_types_name_their_key) {
    static const uint32_t types[] = {13, 14, INT32_MAX, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        bytes b = one_key("my.key", types[i]);
        put_zeros(&b, 16);
        assert_refused(b, "my.key", "value type");
        b = one_key("my.key", GGUF_ARRAY);
        put_array(&b, types[i], 0);
        assert_refused(b, "my.key", "element type");
    }
}

TEST(bools_are_0_or_1) {
    bytes b = one_key("my.flag", GGUF_BOOL);
    put(&b, "\2", 1);
    assert_refused(b, "my.flag", "stored as 2");
    b = one_key("my.flags", GGUF_ARRAY);
    put_array(&b, GGUF_BOOL, 4);
    put(&b, "\0\1\xff\1", 4);
    assert_refused(b, "my.flags", "stored as 255");
    b = one_key("my.flags", GGUF_ARRAY);
    put_array(&b, GGUF_BOOL, 4);
    put(&b, "\0\1\1\0", 4);
    assert_accepted(b);
}

TEST(array_lengths_are_compared_with_the_bytes_that_follow) {
    static const struct {
        uint32_t type;
        uint64_t count;
    } claims[] = {{GGUF_U8, 25},
                  {GGUF_U8, UINT64_MAX},
                  {GGUF_U16, (1ull << 63) + 1},
                  {GGUF_U32, (1ull << 62) + 1},
                  {GGUF_U64, (1ull << 61) + 1},
                  {GGUF_U64, 4},
                  {GGUF_FLOAT64, 1000000000},
                  {GGUF_STRING, 4},
                  {GGUF_STRING, (1ull << 61) + 1},
                  {GGUF_STRING, UINT64_MAX},
                  {GGUF_ARRAY, 3},
                  {GGUF_ARRAY, 1ull << 62},
                  {GGUF_BOOL, 1ull << 40}};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        bytes b = one_key("my.array", GGUF_ARRAY);
        put_array(&b, claims[i].type, claims[i].count);
        put_zeros(&b, 24);
        assert_refused(b, "my.array", "only 24 bytes are left");
    }
    bytes b = one_key("my.array", GGUF_ARRAY);
    put_array(&b, GGUF_STRING, 3);
    put_text(&b, "a");
    put_u64(&b, 1ull << 50);
    put_text(&b, "c");
    put_zeros(&b, 8);
    assert_refused(b, "my.array", "string takes");
}

static bytes nested(int depth, size_t inner_u8) {
    bytes b = one_key("my.nest", GGUF_ARRAY);
    for (int i = 1; i < depth; i++) put_array(&b, GGUF_ARRAY, 1);
    put_array(&b, GGUF_U8, inner_u8);
    put_zeros(&b, inner_u8);
    return b;
}

TEST(arrays_nest_8_deep) {
    assert_accepted(nested(1, 3));
    assert_accepted(nested(8, 3));
    assert_accepted(nested(8, 0));
    assert_refused(nested(9, 3), "my.nest", "8 deep");
    assert_refused(nested(20000, 1), "my.nest", "8 deep");
    bytes b = one_key("my.wide", GGUF_ARRAY); /* back at the outer level after an inner one */
    put_array(&b, GGUF_ARRAY, 3);
    put_array(&b, GGUF_STRING, 2), put_text(&b, "x"), put_text(&b, "");
    put_array(&b, GGUF_ARRAY, 1), put_array(&b, GGUF_U16, 1), put_zeros(&b, 2);
    put_array(&b, GGUF_FLOAT64, 0);
    assert_accepted(b);
}

TEST(the_alignment_is_a_power_of_two) {
    static const uint32_t good[] = {1, 2, 4, 8, 32, 64, 4096, 1 << 20},
                          bad[] = {0, 3, 48, 1 << 21, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bytes b = file_head(3, 2, 1);
        put_key(&b, "general.alignment", GGUF_U32), put_u32(&b, good[i]);
        put_tensor(&b, "a", 1, (uint64_t[]){8}, GGUF_F32, 0);
        put_tensor(&b, "b", 1, (uint64_t[]){8}, GGUF_F32, good[i] > 32 ? good[i] : 32);
        pad(&b, good[i]);
        put_zeros(&b, good[i] > 32 ? good[i] + 32 : 64);
        assert_accepted(b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes b = one_key("general.alignment", GGUF_U32);
        put_u32(&b, bad[i]);
        assert_refused(b, "general.alignment", "power of two");
    }
    for (uint32_t type = GGUF_U8; type <= GGUF_FLOAT64; type++) {
        if (type == GGUF_U32) continue;
        bytes b = one_key("general.alignment", type);
        put_zeros(&b, gguf_value_size(type) ? gguf_value_size(type) : 12);
        assert_refused(b, "general.alignment", "expected u32");
    }
}

/* A file with a bit of everything; its last byte belongs to a tensor. */
static bytes sampler(void) {
    bytes b = file_head(3, 2, 5);
    put_key(&b, "general.alignment", GGUF_U32), put_u32(&b, 64);
    put_key(&b, "a.string", GGUF_STRING), put_text(&b, "text");
    put_key(&b, "an.array", GGUF_ARRAY), put_array(&b, GGUF_STRING, 2), put_text(&b, "x"), put_text(&b, "");
    put_key(&b, "a.nest", GGUF_ARRAY), put_array(&b, GGUF_ARRAY, 2);
    put_array(&b, GGUF_U16, 2), put_u32(&b, 7), put_array(&b, GGUF_BOOL, 1), put(&b, "\1", 1);
    put_key(&b, "a.double", GGUF_FLOAT64), put_u64(&b, 1);
    put_tensor(&b, "t.0", 2, (uint64_t[]){4, 2}, GGUF_F16, 0);
    put_tensor(&b, "t.1", 1, (uint64_t[]){32}, GGUF_Q4_0, 64);
    pad(&b, 64), put_zeros(&b, 64 + 18);
    return b;
}

TEST(a_file_cut_anywhere_is_refused) {
    bytes whole = sampler();
    assert_accepted(sampler());
    for (size_t n = 0; n < whole.n; n++)
        assert_refused(text_file((const char *)whole.data, n), "made.gguf: ", "");
    free(whole.data);
}

TEST(no_byte_of_a_file_can_crash_the_reader) {
    bytes b = sampler();
    size_t refused = 0;
    for (size_t at = 0; at < b.n; at++) {
        uint8_t good = b.data[at],
                values[] = {0, 1, 0x7f, 0x80, 0xff, (uint8_t)(good + 1), (uint8_t)(good - 1)};
        for (size_t i = 0; i < sizeof values; i++) {
            model_source m;
            gq_error e = {.text = ""};
            void *copy;
            b.data[at] = values[i];
            bool ok = opens(&b, &m, &e, &copy);
            refused += !ok;
            if (!ok && !strstr(e.text, "made.gguf")) fail_msg("at %zu: %s", at, e.text);
            model_close(&m);
            free(copy);
        }
        b.data[at] = good;
    }
    assert_in_range(refused, 500, 7 * b.n);
    free(b.data);
}

TEST(values_convert) {
    bytes b = file_head(3, 0, 16);
    put_key(&b, "u8", GGUF_U8), put(&b, "\xff", 1);
    put_key(&b, "i8", GGUF_INT8), put(&b, "\x80", 1);
    put_key(&b, "u16", GGUF_U16), put(&b, "\xff\xff", 2);
    put_key(&b, "i16", GGUF_INT16), put(&b, "\0\x80", 2);
    put_key(&b, "u32", GGUF_U32), put_u32(&b, UINT32_MAX);
    put_key(&b, "i32", GGUF_INT32), put_u32(&b, 1u << 31);
    put_key(&b, "u64", GGUF_U64), put_u64(&b, INT64_MAX);
    put_key(&b, "u64 high", GGUF_U64), put_u64(&b, 1ull << 63);
    put_key(&b, "i64", GGUF_INT64), put_u64(&b, 1ull << 63);
    put_key(&b, "f32", GGUF_FLOAT32), put(&b, &(float){1.5f}, 4);
    put_key(&b, "f64", GGUF_FLOAT64), put(&b, &(double){1e300}, 8);
    put_key(&b, "true", GGUF_BOOL), put(&b, "\1", 1);
    put_key(&b, "string", GGUF_STRING), put_u64(&b, 5), put(&b, "ab\0cd", 5);
    put_key(&b, "empty", GGUF_STRING), put_text(&b, "");
    put_key(&b, "array", GGUF_ARRAY), put_array(&b, GGUF_U16, 2), put_u32(&b, 0x00020001);
    put_key(&b, "long", GGUF_STRING), put_text(&b, "longer than eight bytes");

    static const struct {
        const char *key;
        int64_t value;
    } integers[] = {{"u8", 255},         {"i8", -128},       {"u16", 65535},     {"i16", -32768},
                    {"u32", UINT32_MAX}, {"i32", INT32_MIN}, {"u64", INT64_MAX}, {"i64", INT64_MIN}};
    static const char *const not_integers[] = {"u64 high", "f32",   "f64",   "true",
                                               "string",   "empty", "array", "long"};
    model_source m;
    gq_error e;
    assert_true(gguf_model_memory(&m, "values.gguf", b.data, b.n, &e));
    const model_kv *kv = gguf_container_of(&m)->shards[0].kv;
    uint64_t n = gguf_container_of(&m)->shards[0].n_kv, length, count;
    int64_t i64;
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_true(model_kv_int(model_kv_find(kv, n, integers[i].key), &i64));
        assert_true(i64 == integers[i].value);
    }
    for (size_t i = 0; i < sizeof not_integers / sizeof *not_integers; i++)
        assert_false(model_kv_int(model_kv_find(kv, n, not_integers[i]), &i64));
    double f64;
    assert_true(model_kv_float(model_kv_find(kv, n, "f32"), &f64) && f64 == 1.5);
    assert_true(model_kv_float(model_kv_find(kv, n, "f64"), &f64) && f64 == 1e300);
    assert_false(model_kv_float(model_kv_find(kv, n, "u32"), &f64));
    const char *text;
    assert_true(model_kv_string(model_kv_find(kv, n, "string"), &text, &length));
    assert_int_equal(length, 5);
    assert_memory_equal(text, "ab\0cd", 5);
    assert_true(model_kv_string(model_kv_find(kv, n, "empty"), &text, &length) && length == 0);
    assert_false(model_kv_string(model_kv_find(kv, n, "array"), &text, &length));
    uint32_t type;
    const uint8_t *elements;
    assert_true(model_kv_array(model_kv_find(kv, n, "array"), &type, &count, &elements));
    assert_true(type == GGUF_U16 && count == 2);
    assert_memory_equal(elements, "\1\0\2\0", 4);
    assert_false(model_kv_array(model_kv_find(kv, n, "string"), &type, &count, &elements));
    assert_null(model_kv_find(kv, n, "stri"));
    assert_false(model_kv_int(NULL, &i64) || model_kv_float(NULL, &f64) ||
                 model_kv_string(NULL, &text, &length) || model_kv_array(NULL, &type, &count, &elements));
    assert_string_equal(gguf_value_name(GGUF_INT16), "i16");
    assert_string_equal(gguf_value_name(13), "unknown");
    assert_int_equal(gguf_value_size(GGUF_STRING), 0);
    assert_int_equal(gguf_value_size(13), 0);
    model_close(&m);
    free(b.data);
}

/* Longer than any step in which the header is read. */
TEST(long_headers_are_read_in_steps) {
    enum { KEYS = 300, STRINGS = 2000 };
    bytes b = file_head(3, 1, KEYS);
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key.%d", i);
        put_key(&b, key, GGUF_ARRAY), put_array(&b, GGUF_STRING, i % 100 ? 1 : STRINGS);
        for (int j = 0; j < (i % 100 ? 1 : STRINGS); j++) put_text(&b, key);
    }
    put_tensor(&b, "last", 1, (uint64_t[]){8}, GGUF_F32, 0);
    pad(&b, 32), put_zeros(&b, 32);
    char *folder = temporary_folder(), path[4096];
    snprintf(path, sizeof path, "%s/long.gguf", folder);
    write_whole(path, b.data, b.n);
    model_source m;
    gq_error e;
    assert_true(gguf_model_open(&m, path, &e));
    for (int i = 0; i < KEYS; i++) {
        const model_kv *kv = &gguf_container_of(&m)->shards[0].kv[i];
        snprintf(key, sizeof key, "key.%d", i);
        assert_string_equal(kv->key, key);
        assert_memory_equal(kv->value + kv->size - strlen(key), key, strlen(key));
    }
    assert_non_null(model_tensor_named(&m, "last"));
    model_close(&m);
    remove_folder(folder);
    free(b.data);
}

TEST(a_sparse_file_cannot_claim_a_giant_header) {
    char *folder = temporary_folder(), path[4096];
    snprintf(path, sizeof path, "%s/sparse.gguf", folder);
    bytes b = one_key("my.key", GGUF_STRING);
    put_u64(&b, 4ull << 30);
    write_whole(path, b.data, b.n);
    assert_int_equal(truncate(path, 8ll << 30), 0);
    model_source m;
    gq_error e;
    assert_false(gguf_model_open(&m, path, &e));
    assert_non_null(strstr(e.text, path));
    assert_non_null(strstr(e.text, "1073741824"));
    remove_folder(folder);
    free(b.data);
}

int main(void) { return tests_run(NULL, NULL); }
