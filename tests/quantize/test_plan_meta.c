/* What an output says of itself: metadata, overrides, and what pruning leaves of them. */
#include "gguf/model.h"
#include "tests/support/folder.h"
#include "tests/support/plans.h"

/* ---- metadata ---- */

static const model_kv *kv_of(const model_source *m, const char *key) {
    return model_kv_find(gguf_container_of(m)->shards[0].kv, gguf_container_of(m)->shards[0].n_kv, key);
}

static int64_t int_of(const model_source *m, const char *key) {
    int64_t value = -1;
    assert_true(model_kv_int(kv_of(m, key), &value));
    return value;
}

static uint32_t type_of(const model_source *m, const char *key) {
    const model_kv *kv = kv_of(m, key);
    if (!kv) fail_msg("no key %s", key);
    return kv->type;
}

static void check_order(const model_source *m, const char *const *keys, size_t n) {
    assert_int_equal(gguf_container_of(m)->shards[0].n_kv, n);
    for (size_t i = 0; i < n; i++) assert_string_equal(gguf_container_of(m)->shards[0].kv[i].key, keys[i]);
}

TEST(metadata_keep_their_order_and_bytes) {
    static const char *const wanted[] = {
        "general.architecture",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "odd.text",
        "odd.list",
        "general.type",
        "general.quantization_version",
        "general.file_type",
        "odd.new",
        "odd.number",
        "quantize.imatrix.file",
        "quantize.imatrix.dataset",
        "quantize.imatrix.entries_count",
        "quantize.imatrix.chunks_count",
        "gquant.digests",
    };
    static const char *const overrides[] = {"odd.new=str:a=b:c", "odd.number=int:7"};
    model *m = model_llama(1);
    uint16_t split = 0;
    model_set_u32(m, "general.file_type", 1);
    model_set(m, "odd.text", GGUF_STRING, "\3\0\0\0\0\0\0\0a\0b", 11);
    model_set(m, "odd.number", GGUF_INT8, "\377", 1);
    model_set(m, "split.count", GGUF_U16, &split, 2);
    model_set_array(m, "odd.list", GGUF_U8, "\1\2\3", 3);
    model_save(m, path("meta.gguf"));
    write_importance(path("meta.dat"), 1);
    gq_output out = {.path = path("meta-out.gguf"), .filetype = "Q5_K_S"};
    gq_options o = options_for(path("meta.gguf"), &out);
    o.imatrix = path("meta.dat");
    o.override_kv = (gq_list){overrides, 2};
    gq_results_free(run_plan(&o));
    model_source in = open_model(path("meta.gguf")), done = open_model(path("meta-out.gguf"));
    check_order(&done, wanted, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < 6; i++) {
        const model_kv *a = kv_of(&in, wanted[i]), *b = kv_of(&done, wanted[i]);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->value, b->value, a->size);
    }
    assert_int_equal(int_of(&done, "general.quantization_version"), 2);
    assert_int_equal(int_of(&done, "general.file_type"), 16);
    assert_int_equal(type_of(&done, "odd.number"), GGUF_INT8);
    const char *text;
    uint64_t n;
    assert_true(model_kv_string(kv_of(&done, "quantize.imatrix.file"), &text, &n));
    assert_int_equal(n, 8);
    assert_memory_equal(text, "meta.dat", 8);
    model_close(&in), model_close(&done);
}

TEST(a_copy_keeps_its_file_type) {
    model *m = model_llama(1);
    model_write(m, path("none.gguf"));
    uint64_t type = 18;
    model_set(m, "general.file_type", GGUF_U64, &type, 8);
    model_save(m, path("some.gguf"));
    quantize(path("none.gguf"), path("none-copy.gguf"), "COPY", 1);
    quantize(path("some.gguf"), path("some-copy.gguf"), "COPY", 1);
    model_source none = open_model(path("none-copy.gguf")), some = open_model(path("some-copy.gguf"));
    assert_null(kv_of(&none, "general.file_type"));
    assert_int_equal(int_of(&some, "general.file_type"), 18);
    assert_int_equal(type_of(&some, "general.file_type"), GGUF_U32); /* as it is read */
    model_close(&none), model_close(&some);
}

/* ---- overrides ---- */

TEST(overrides_keep_types) {
    static const char *const items[] = {
        "a.u8=int:255",
        "a.i64=int:-9223372036854775808",
        "a.f32=int:10000",
        "a.f64=float:0.1",
        "a.u16=float:3",
        "a.text=str:5",
        "b.int=int:7",
        "b.negative=int:-7",
        "b.large=int:18446744073709551615",
        "b.float=float:1e-5",
        "b.yes=bool:true",
        "b.no=bool:false",
        "b.text=str:",
        "b.int=int:8",
    };
    static const struct {
        const char *key;
        uint32_t type;
    } wanted[] = {{"a.u8", GGUF_U8},         {"a.i64", GGUF_INT64},      {"a.f32", GGUF_FLOAT32},
                  {"a.f64", GGUF_FLOAT64},   {"a.u16", GGUF_U16},        {"a.text", GGUF_STRING},
                  {"b.int", GGUF_U32},       {"b.negative", GGUF_INT32}, {"b.large", GGUF_U64},
                  {"b.float", GGUF_FLOAT32}, {"b.yes", GGUF_BOOL},       {"b.no", GGUF_BOOL},
                  {"b.text", GGUF_STRING}};
    model *m = model_llama(1);
    model_set(m, "a.u8", GGUF_U8, "\1", 1);
    model_set(m, "a.i64", GGUF_INT64, "\1\0\0\0\0\0\0\0", 8);
    model_set(m, "a.f32", GGUF_FLOAT32, "\0\0\0\0", 4);
    model_set(m, "a.f64", GGUF_FLOAT64, "\0\0\0\0\0\0\0\0", 8);
    model_set(m, "a.u16", GGUF_U16, "\0\0", 2);
    model_set_string(m, "a.text", "x");
    model_save(m, path("types.gguf"));
    gq_output out = {.path = path("types-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("types.gguf"), &out);
    o.override_kv = (gq_list){items, sizeof items / sizeof *items};
    gq_results_free(run_plan(&o));
    model_source done = open_model(path("types-out.gguf"));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(type_of(&done, wanted[i].key), wanted[i].type);
    double f;
    assert_int_equal(int_of(&done, "a.u8"), 255);
    assert_true(int_of(&done, "a.i64") == INT64_MIN);
    assert_true(model_kv_float(kv_of(&done, "a.f32"), &f) && f == 10000);
    assert_true(model_kv_float(kv_of(&done, "a.f64"), &f) && f == 0.1);
    assert_int_equal(int_of(&done, "a.u16"), 3);
    assert_int_equal(int_of(&done, "b.int"), 8);
    assert_int_equal(int_of(&done, "b.negative"), -7);
    assert_memory_equal(kv_of(&done, "b.large")->value, "\377\377\377\377\377\377\377\377", 8);
    assert_int_equal(kv_of(&done, "b.yes")->value[0], 1);
    assert_int_equal(kv_of(&done, "b.no")->value[0], 0);
    assert_int_equal(kv_of(&done, "b.text")->size, 8);
    model_close(&done);
}

TEST(malformed_overrides_are_refused) {
    static const char *const items[] = {
        "",
        "key",
        "=int:1",
        "key=",
        "key=1",
        "key=int:",
        "key=int:x",
        "key=int:1x",
        "key=int: 1",
        "key=int:18446744073709551616",
        "key=int:-9223372036854775809",
        "key=float:",
        "key=float:nan",
        "key=float:1e400",
        "key=float:0x10",
        "key=float:1 ",
        "key=bool:yes",
        "key=INT:1",
        "split.count=file:x",
        "general.alignment=int:64",
        "split.count=int:2",
        "llama.block_count=int:4294967296",
        "llama.block_count=int:-1",
        "llama.block_count=float:1.5",
    };
    char text[400] = "key=str:", name[200] = "";
    write_llama(path("override.gguf"), 1);
    gq_output out = {.path = path("override-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("override.gguf"), &out);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        o.override_kv = (gq_list){&items[i], 1};
        must_refuse(&o, GQ_USAGE, items[i]);
    }
    const char *item = text;
    memset(text + 8, 'x', 128);
    o.override_kv = (gq_list){&item, 1};
    must_refuse(&o, GQ_USAGE, "127");
    memset(name, 'k', 128), strcpy(name + 128, "=int:1");
    item = name;
    must_refuse(&o, GQ_USAGE, "127");
}

/* Refuses an item whose file is no text to store. */
static void refuse_file(gq_options *o, const void *bytes, size_t n, const char *says) {
    char item[4200];
    const char *items = item;
    write_whole(path("text"), bytes, n);
    snprintf(item, sizeof item, "key=file:%s", path("text"));
    o->override_kv = (gq_list){&items, 1};
    must_refuse(o, GQ_FAILED, says);
    o->override_kv = (gq_list){NULL, 0};
}

TEST(the_text_of_a_file_is_stored) {
    char long_text[5000], item[4200];
    const char *items = item, *text;
    uint64_t n;
    memset(long_text, 'x', sizeof long_text);
    memcpy(long_text + 4000, "\r\n{% \xc3\xa4 %}\n", 11);
    write_llama(path("file.gguf"), 1);
    gq_output out = {.path = path("file-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("file.gguf"), &out);
    write_whole(path("template.jinja"), long_text, sizeof long_text);
    snprintf(item, sizeof item, "tokenizer.chat_template=file:%s", path("template.jinja"));
    o.override_kv = (gq_list){&items, 1};
    gq_results_free(run_plan(&o));
    model_source done = open_model(out.path);
    assert_true(model_kv_string(kv_of(&done, "tokenizer.chat_template"), &text, &n));
    assert_int_equal(n, sizeof long_text);
    assert_memory_equal(text, long_text, n);
    model_close(&done);
    /* It is an input, and no output may take its place. */
    gq_output over = {.path = path("template.jinja"), .filetype = "COPY"};
    gq_options both = options_for(path("file.gguf"), &over);
    both.override_kv = o.override_kv, both.force = true;
    must_refuse(&both, GQ_FAILED, "template.jinja");
    both.override_kv.n = 0;
    gq_plan_free(must_plan(&both));
    out.path = path("file-out2.gguf");
    refuse_file(&o, "a\0b", 3, "byte 1 is 0x00");
    refuse_file(&o, "ab\xff", 3, "byte 2 is 0xff");
    refuse_file(&o, "\xc3", 1, "UTF-8");
    const char *const nowhere[] = {"key=file:", "key=file:/nowhere/at/all"};
    for (size_t i = 0; i < 2; i++) {
        o.override_kv = (gq_list){&nowhere[i], 1};
        must_refuse(&o, GQ_FAILED, "");
    }
    char number[4200];
    const char *numbers = number;
    snprintf(number, sizeof number, "llama.block_count=file:%s", path("template.jinja"));
    o.override_kv = (gq_list){&numbers, 1};
    must_refuse(&o, GQ_USAGE, "as a number of 32 bits without a sign, not string");
}

/* Makes a copy of a model with a few pairs, with these patterns of keys to leave out and one override. */
static model_source without(const char *const *patterns, size_t n, const char *set, size_t n_warnings) {
    model *m = model_llama(1);
    model_set_string(m, "general.name", "x");
    model_set_string(m, "general.tags", "y");
    model_set_string(m, "tokenizer.chat_template", "z");
    model_set_u32(m, "general.alignment", 32);
    model_save(m, path("pairs.gguf"));
    write_importance(path("pairs.dat"), 1);
    gq_output out = {.path = path("pairs-out.gguf"), .filetype = "Q5_K_S"};
    gq_options o = options_for(path("pairs.gguf"), &out);
    o.imatrix = path("pairs.dat"), o.force = true;
    o.remove_kv = (gq_list){patterns, n}, o.override_kv = (gq_list){&set, set != NULL};
    gq_plan *plan = must_plan(&o);
    size_t found, idle = 0;
    const char *const *warnings = gq_plan_warnings(plan, &found);
    for (size_t i = 0; i < found; i++) idle += strstr(warnings[i], "metadata to remove") != NULL;
    assert_int_equal(idle, n_warnings);
    gq_results_free(must_run(plan));
    gq_plan_free(plan);
    return open_model(out.path);
}

TEST(pairs_can_be_left_out) {
    static const char *const few[] = {"^general\\.tags$", "imatrix", "chat_template"};
    static const char *const left[] = {"general.architecture",
                                       "llama.block_count",
                                       "llama.attention.head_count",
                                       "llama.attention.head_count_kv",
                                       "general.name",
                                       "general.alignment",
                                       "general.type",
                                       "general.quantization_version",
                                       "general.file_type",
                                       "gquant.digests"};
    model_source done = without(few, 3, NULL, 0);
    check_order(&done, left, sizeof left / sizeof *left);
    model_close(&done);
    /* What no file can do without stays, whatever the pattern; what is set by name is wanted. */
    static const char *const all[] = {"^(?!general\\.type$)"};
    static const char *const wanted[] = {"general.architecture", "general.alignment", "general.type",
                                         "general.file_type"};
    done = without(all, 1, "general.file_type=int:99", 0);
    check_order(&done, wanted, 4);
    assert_int_equal(int_of(&done, "general.file_type"), 99);
    model_close(&done);
    static const char *const idle[] = {"nothing", "^general\\.architecture$"};
    done = without(idle, 2, NULL, 1);
    assert_non_null(kv_of(&done, "general.tags"));
    model_close(&done);
}

TEST(malformed_patterns_of_keys_are_refused) {
    static const char *const patterns[] = {"(", "", "a{99999}"};
    write_llama(path("one.gguf"), 1);
    gq_output out = {.path = path("one-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("one.gguf"), &out);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        o.remove_kv = (gq_list){&patterns[i], 1};
        must_refuse(&o, GQ_USAGE, "");
    }
}

TEST(experts_of_a_dense_model_are_refused) {
    static const char *const item = "llama.expert_count=int:8";
    write_llama(path("dense.gguf"), 1);
    gq_output out = {.path = path("dense-out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(path("dense.gguf"), &out);
    o.override_kv = (gq_list){&item, 1};
    must_refuse(&o, GQ_USAGE, "the model has no tensors of experts");
}

/* ---- pruning ---- */

TEST(pruning_renumbers_and_slices) {
    static const uint32_t heads[6] = {10, 11, 12, 13, 14, 15};
    static const uint8_t words[] = "\0\0\0\0\0\0\0\0"
                                   "\1\0\0\0\0\0\0\0a"
                                   "\2\0\0\0\0\0\0\0bb"
                                   "\0\0\0\0\0\0\0\0"
                                   "\3\0\0\0\0\0\0\0ccc"
                                   "\1\0\0\0\0\0\0\0d";
    uint8_t list[12 + sizeof words - 1] = {GGUF_STRING, 0, 0, 0, 6};
    memcpy(list + 12, words, sizeof words - 1);
    model *m = model_llama(6);
    model_set_array(m, "llama.attention.head_count_kv", GGUF_U32, heads, 6);
    model_set(m, "llama.names", GGUF_ARRAY, list, sizeof list);
    model_set_array(m, "llama.five", GGUF_U32, heads, 5);
    model_set_array(m, "other.six", GGUF_U32, heads, 6);
    model_set_string(m, "general.size_label", "3.3M");
    model_save(m, path("six.gguf"));
    gq_output out = {.path = path("four.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("six.gguf"), &out);
    o.prune_layers = "4,1,4,99";
    gq_plan *plan = must_plan(&o);
    gq_results_free(must_run(plan));
    model_source in = open_model(path("six.gguf")), done = open_model(path("four.gguf"));
    assert_true(warned(plan, "layers to prune: no layer 99"));
    assert_int_equal(int_of(&done, "llama.block_count"), 4);
    assert_int_equal(done.n_tensors, in.n_tensors - 18);
    static const char *const map[][2] = {{"0", "0"}, {"2", "1"}, {"3", "2"}, {"5", "3"}};
    for (int i = 0; i < 4; i++) {
        char from[64], to[64];
        uint64_t a, b;
        snprintf(from, 64, "blk.%s.ffn_down.weight", map[i][0]),
            snprintf(to, 64, "blk.%s.ffn_down.weight", map[i][1]);
        uint8_t *x = tensor_bytes(&in, from, &a), *y = tensor_bytes(&done, to, &b);
        assert_int_equal(a, b);
        assert_memory_equal(x, y, a);
        free(x), free(y);
    }
    uint32_t type;
    uint64_t n;
    const uint8_t *elements;
    assert_true(model_kv_array(kv_of(&done, "llama.attention.head_count_kv"), &type, &n, &elements));
    assert_int_equal(n, 4);
    assert_memory_equal(elements, ((uint32_t[]){10, 12, 13, 15}), 16);
    assert_true(model_kv_array(kv_of(&done, "llama.names"), &type, &n, &elements));
    assert_int_equal(n, 4);
    assert_memory_equal(elements,
                        "\0\0\0\0\0\0\0\0"
                        "\2\0\0\0\0\0\0\0bb"
                        "\0\0\0\0\0\0\0\0"
                        "\1\0\0\0\0\0\0\0d",
                        35);
    const char *label;
    assert_true(model_kv_string(kv_of(&done, "general.size_label"), &label, &n) && n == 4);
    assert_memory_equal(label, "2.5M", 4); /* 2 x 512 x 256 outside the blocks, 557568 in each of four */
    assert_true(model_kv_array(kv_of(&done, "llama.five"), &type, &n, &elements) && n == 5);
    assert_true(model_kv_array(kv_of(&done, "other.six"), &type, &n, &elements) && n == 6);
    const gq_tensor *tensors = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, "blk.3.attn_q.weight"))
            assert_string_equal(tensors[i].source_name, "blk.5.attn_q.weight");
    model_close(&in), model_close(&done);
    gq_plan_free(plan);
}

TEST(malformed_layer_lists_are_refused) {
    static const char *const lists[] = {"", "a", "1,", ",1", "1,,2", "-1", "1 ", "0,1", "9999999999"};
    write_llama(path("two.gguf"), 2);
    gq_output out = {.path = path("two-out.gguf"), .filetype = "COPY"};
    gq_options o = options_for(path("two.gguf"), &out);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        o.prune_layers = lists[i];
        must_refuse(&o, GQ_USAGE, "prun");
    }
}

int main(void) { return tests_run(folder_make, folder_remove); }
