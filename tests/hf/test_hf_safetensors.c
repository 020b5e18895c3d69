/* Headers of safetensors and the index beside them: what is read, and each way in which they can be wrong. */
#include "hf/sources/sources.h"
#include "tests/support/folder.h"
#include "tests/support/safetensors.h"

/* Writes a file: its header's length, the header, n bytes of elements, which count up. */
static void write_weights(const char *name, const char *header, size_t n) {
    uint8_t *bytes = calloc(1, n + 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)i;
    safetensors_write_header(path(name), header, bytes, n);
    free(bytes);
}

static void write_text(const char *name, const char *text) { write_whole(path(name), text, strlen(text)); }

static int folder_empty(void **state) { return folder_remove(state) || folder_make(state); }

/* Opens the folder's weights; *e tells why not. */
static bool list_opens(hf_folder *f, hf_list *l, gq_error *e) {
    *l = (hf_list){.folder = NULL};
    return hf_folder_open(f, folder, e) && hf_list_read(l, f, e);
}

static void assert_refused(const char *with) {
    hf_folder f;
    hf_list l;
    gq_error e = {.text = ""};
    bool opened = list_opens(&f, &l, &e);
    hf_list_free(&l), hf_folder_close(&f);
    assert_false(opened);
    if (!strstr(e.text, with)) fail_msg("'%s' does not say '%s'", e.text, with);
}

TEST_WITH(one_file_is_read, folder_empty, NULL) {
    hf_folder f;
    hf_list l;
    gq_error e;
    float x[4];
    write_weights("model.safetensors",
                  "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_"
                  "offsets\":[8,12]},"
                  "\"a\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[0,8]}}  ",
                  12);
    assert_true(list_opens(&f, &l, &e));
    assert_int_equal(l.n, 2);
    assert_string_equal(l.stored[0].name, "a");
    const hf_stored *b = hf_list_find(&l, "b");
    assert_non_null(b);
    assert_null(hf_list_find(&l, "c"));
    assert_true(hf_list_floats(&l, b, 1, 3, x, &e));
    assert_true(x[0] == 9 && x[2] == 11);
    assert_true(hf_list_floats(&l, &l.stored[0], 0, 4, x, &e));
    assert_true(x[1] == 2 + 256 * 3);
    hf_list_free(&l), hf_folder_close(&f);
}

/* All kinds of elements become the numbers that they stand for. */
TEST_WITH(every_type_of_element_is_read, folder_empty, NULL) {
    static const struct {
        const char *dtype;
        size_t size;
        uint64_t bits;
        float value;
    } rows[] = {
        {"F64", 8, 0x3ff8000000000000, 1.5f},
        {"F32", 4, 0xc0490fdb, -3.14159274f},
        {"F16", 2, 0x0001, 0x1p-24f},
        {"F16", 2, 0xfbff, -65504},
        {"BF16", 2, 0x3f80, 1},
        {"F8_E4M3", 1, 0x7e, 448},
        {"F8_E4M3", 1, 0x81, -0x1p-9f},
        {"F8_E5M2", 1, 0x7b, 57344},
        {"F8_E5M2", 1, 0x01, 0x1p-16f},
        {"F8_E8M0", 1, 0, 0x1p-127f},
        {"F8_E8M0", 1, 128, 2},
        {"I64", 8, (uint64_t)-5, -5},
        {"I32", 4, 0xfffffffe, -2},
        {"I16", 2, 0x8000, -32768},
        {"I8", 1, 0xff, -1},
        {"U8", 1, 0xff, 255},
        {"BOOL", 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char header[128];
        hf_folder f;
        hf_list l;
        gq_error e;
        float x;
        size_t n = (size_t)snprintf(header, sizeof header,
                                    "{\"x\":{\"dtype\":\"%s\",\"shape\":[],\"data_offsets\":[0,%zu]}}",
                                    rows[i].dtype, rows[i].size);
        write_weights("model.safetensors", header, rows[i].size);
        FILE *file = fopen(path("model.safetensors"), "r+b");
        assert_int_equal(fseek(file, (long)(8 + n), SEEK_SET), 0);
        fwrite(&rows[i].bits, 1, rows[i].size, file); /* little-endian */
        fclose(file);
        assert_true(list_opens(&f, &l, &e));
        assert_true(hf_list_floats(&l, &l.stored[0], 0, 1, &x, &e));
        assert_memory_equal(&x, &rows[i].value, sizeof x);
        hf_list_free(&l), hf_folder_close(&f);
    }
}

TEST_WITH(headers_that_are_wrong, folder_empty, NULL) {
    static const struct {
        const char *header, *says;
    } rows[] = {
        {"[]", "byte 8 is not '{'"},
        {"{\"a\":1}", "no \"dtype\""},
        {"{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,1]}}", "of type F4"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", "no \"shape\""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "dimension 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.5],\"data_offsets\":[0,1]}}", "dimension 0"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", "9 dimensions"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,1]}}",
         "2^64 elements or more"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}}", "data_offsets"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", "truncated"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1]}}", "1 bytes, expected 2"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":["
         "2],"
         "\"data_offsets\":[1,3]}}",
         "overlaps tensor 'a'"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":["
         "1],"
         "\"data_offsets\":[1,2]}}",
         "duplicate"},
        {"{\"a\":", "line 1"},
        {"{\"\xff\":1}", "line 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_weights("model.safetensors", rows[i].header, 4);
        assert_refused(rows[i].says);
    }
}

TEST_WITH(files_that_are_none, folder_empty, NULL) {
    write_text("model.safetensors", "");
    assert_refused("is empty");
    write_text("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n");
    assert_refused("git lfs pull");
    write_text("model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}");
    assert_refused("truncated, or not a safetensors");
    write_text("model.safetensors", "\x09\0\0");
    assert_refused("model.safetensors");
    assert_int_equal(unlink(path("model.safetensors")), 0);
    assert_int_equal(symlink("nowhere", path("model.safetensors")), 0);
    assert_refused("link to a file that is not there");
}

TEST_WITH(brackets_are_bounded, folder_empty, NULL) {
    char *deep = malloc(100001);
    memset(deep, '[', 100000), deep[100000] = 0;
    memcpy(deep, "{\"a\":", 5);
    write_weights("model.safetensors", deep, 0);
    free(deep);
    assert_refused("deep");
}

TEST_WITH(folders_without_weights, folder_empty, NULL) {
    assert_refused("without a model");
    write_text("config.json", "{}");
    assert_refused("has no weights");
    write_text("x.incomplete", "");
    assert_refused("unfinished download");
    write_text("consolidated.safetensors", "");
    assert_refused("consolidated");
    write_text("pytorch_model.bin", "");
    assert_refused("pytorch_model");
    write_text("model.gguf", "");
    assert_refused("a GGUF file: name the model in it");
    write_text("adapter_config.json", "{}");
    assert_refused("LoRA adapter");
}

TEST_WITH(parts_without_an_index, folder_empty, NULL) {
    hf_folder f;
    hf_list l;
    gq_error e;
    write_weights("model-00001-of-00002.safetensors", "{}", 0);
    assert_refused("one of 2 files, and 1 of them are there");
    write_weights("model-00002-of-00002.safetensors", "{}", 0);
    write_weights("model-more.safetensors", "{}", 0);
    assert_true(list_opens(&f, &l, &e));
    hf_list_free(&l), hf_folder_close(&f);
    write_weights("model-more-00002-of-00003.safetensors", "{}", 0);
    assert_refused("one of 3 files, and 1 of them are there");
}

static const char A[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
static const char B[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";

TEST_WITH(an_index_and_its_files, folder_empty, NULL) {
    hf_folder f;
    hf_list l;
    gq_error e;
    write_weights("one", A, 1), write_weights("two", B, 1), write_weights("three", A, 1);
    write_text("model.safetensors.index.json",
               "{\"weight_map\":{\"a\":\"two\",\"b\":\"one\"}}"); /* which one is in does not matter */
    assert_true(list_opens(&f, &l, &e));
    assert_int_equal(l.n, 2);
    hf_list_free(&l), hf_folder_close(&f);
    static const struct {
        const char *index, *says;
    } rows[] = {
        {"{}", "weight_map"},
        {"{\"weight_map\":{\"a\":\"one\"}", "line"},
        {"{\"weight_map\":{\"a\":1}}", "no text"},
        {"{\"weight_map\":{\"a\":\"../one\"}}", "../one"},
        {"{\"weight_map\":{\"a\":\"..\"}}", "file in the folder"},
        {"{\"weight_map\":{\"a\":\"\"}}", "file in the folder"},
        {"{\"weight_map\":{\"a\":\"one\",\"b\":\"four\"}}", "four is missing"},
        {"{\"weight_map\":{\"a\":\"one\",\"c\":\"one\"}}", "'c'"},
        {"{\"weight_map\":{\"a\":\"one\",\"x\":\"two\"}}", "does not name it"},
        {"{\"weight_map\":{\"a\":\"one\",\"b\":\"three\"}}", "has it, too"},
        {"{\"weight_map\":{}}", "without a model"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_text("model.safetensors.index.json", rows[i].index);
        assert_refused(rows[i].says);
    }
}

int main(void) { return tests_run(folder_make, folder_remove); }
