/* What is settled before a weight is read: names, metadata, pruning, overrides, importance, refusals. */
#include "tests/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "imatrix/imatrix.h"

static char *folder;
static const char *path(const char *name) { return in_folder(folder, name); }

static int set_up(void **state) {
    (void)state;
    folder = temporary_folder();
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

static void write_llama(const char *to, uint32_t blocks) {
    model *m = model_llama(blocks);
    model_write(m, to);
    model_free(m);
}

static gq_options options_for(const char *in, const gq_output *out) {
    return (gq_options){.input = in, .outputs = out, .n_outputs = 1, .effort = GQ_EFFORT_DEFAULT};
}

static gq_plan *must_plan(const gq_options *options) {
    gq_error e;
    gq_plan *plan = gq_plan_new(options, &e);
    if (!plan) fail_msg("%s", e.text);
    return plan;
}

static void must_refuse(const gq_options *options, gq_status status, const char *says) {
    gq_error e;
    gq_plan *plan = gq_plan_new(options, &e);
    if (plan) fail_msg("planned, without '%s'", says);
    assert_int_equal(e.status, status);
    if (!strstr(e.text, says)) fail_msg("'%s' lacks '%s'", e.text, says);
}

static bool warned(const gq_plan *plan, const char *says) {
    size_t n;
    const char *const *warnings = gq_plan_warnings(plan, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(warnings[i], says)) return true;
    return false;
}

/* ---- names ---- */

static void output_names_come_from_the_input(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"model-F16.gguf", "model-Q4_K_M.gguf"},
        {"model.bf16.gguf", "model.Q4_K_M.gguf"},
        {"F32.gguf", "Q4_K_M.gguf"},
        {"a-F16-of-bf16-mix.gguf", "a-F16-of-Q4_K_M-mix.gguf"},
        {"plain.gguf", "plain-Q4_K_M.gguf"},
        {"F16model", "F16model-Q4_K_M.gguf"},
        {"model-f16-00001-of-00001.gguf", "model-Q4_K_M.gguf"},
        {"SMF16S.gguf", "SMF16S-Q4_K_M.gguf"},
        {"a-f16-1-of-2.gguf", "a-Q4_K_M-1-of-2.gguf"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_llama(path(cases[i][0]), 1);
        gq_output out = {NULL, "q4_k_m"};
        gq_options o = options_for(path(cases[i][0]), &out);
        gq_plan *plan = must_plan(&o);
        assert_string_equal(gq_plan_summary(plan, 0)->path, path(cases[i][1]));
        gq_plan_free(plan);
        o.out_dir = "/tmp";
        char wanted[300];
        snprintf(wanted, sizeof wanted, "/tmp/%s", cases[i][1]);
        plan = must_plan(&o);
        assert_string_equal(gq_plan_summary(plan, 0)->path, wanted);
        gq_plan_free(plan);
    }
}

/* ---- metadata ---- */

static const gguf_kv *kv_of(const gguf_model *m, const char *key) {
    return gguf_find(m->shards[0].kv, m->shards[0].n_kv, key);
}

static int64_t int_of(const gguf_model *m, const char *key) {
    int64_t value = -1;
    assert_true(gguf_kv_int(kv_of(m, key), &value));
    return value;
}

static uint32_t type_of(const gguf_model *m, const char *key) {
    const gguf_kv *kv = kv_of(m, key);
    if (!kv) fail_msg("no key %s", key);
    return kv->type;
}

static void check_order(const gguf_model *m, const char *const *keys, size_t n) {
    assert_int_equal(m->shards[0].n_kv, n);
    for (size_t i = 0; i < n; i++) assert_string_equal(m->shards[0].kv[i].key, keys[i]);
}

static void write_matrix(const char *to, uint32_t blocks);

static void metadata_keep_their_order_and_bytes(void **state) {
    (void)state;
    static const char *const wanted[] = {
        "general.architecture",
        "llama.block_count",
        "llama.attention.head_count",
        "llama.attention.head_count_kv",
        "odd.text",
        "odd.list",
        "general.quantization_version",
        "general.file_type",
        "odd.new",
        "odd.number",
        "quantize.imatrix.file",
        "quantize.imatrix.dataset",
        "quantize.imatrix.entries_count",
        "quantize.imatrix.chunks_count",
    };
    static const char *const overrides[] = {"odd.new=str:a=b:c", "odd.number=int:7"};
    model *m = model_llama(1);
    uint16_t split = 0;
    model_set_u32(m, "general.file_type", 1);
    model_set(m, "odd.text", GGUF_STRING, "\3\0\0\0\0\0\0\0a\0b", 11);
    model_set(m, "odd.number", GGUF_INT8, "\377", 1);
    model_set(m, "split.count", GGUF_U16, &split, 2);
    model_set_array(m, "odd.list", GGUF_U8, "\1\2\3", 3);
    model_write(m, path("meta.gguf"));
    model_free(m);
    write_matrix(path("meta.dat"), 1);
    gq_output out = {path("meta-out.gguf"), "Q5_K_S"};
    gq_options o = options_for(path("meta.gguf"), &out);
    o.imatrix = path("meta.dat");
    o.override_kv = (gq_list){overrides, 2};
    gq_plan_free(run_plan(&o));
    gguf_model in = open_model(path("meta.gguf")), done = open_model(path("meta-out.gguf"));
    check_order(&done, wanted, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < 6; i++) {
        const gguf_kv *a = kv_of(&in, wanted[i]), *b = kv_of(&done, wanted[i]);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->size, b->size);
        assert_memory_equal(a->value, b->value, a->size);
    }
    assert_int_equal(int_of(&done, "general.quantization_version"), 2);
    assert_int_equal(int_of(&done, "general.file_type"), 16);
    assert_int_equal(type_of(&done, "odd.number"), GGUF_INT8);
    const char *text;
    uint64_t n;
    assert_true(gguf_kv_string(kv_of(&done, "quantize.imatrix.file"), &text, &n));
    assert_int_equal(n, 8);
    assert_memory_equal(text, "meta.dat", 8);
    gguf_model_close(&in), gguf_model_close(&done);
}

static void a_copy_keeps_its_file_type(void **state) {
    (void)state;
    model *m = model_llama(1);
    model_write(m, path("none.gguf"));
    uint64_t type = 18;
    model_set(m, "general.file_type", GGUF_U64, &type, 8);
    model_write(m, path("some.gguf"));
    model_free(m);
    quantize(path("none.gguf"), path("none-copy.gguf"), "COPY", 1);
    quantize(path("some.gguf"), path("some-copy.gguf"), "COPY", 1);
    gguf_model none = open_model(path("none-copy.gguf")), some = open_model(path("some-copy.gguf"));
    assert_null(kv_of(&none, "general.file_type"));
    assert_int_equal(int_of(&some, "general.file_type"), 18);
    assert_int_equal(type_of(&some, "general.file_type"), GGUF_U64);
    gguf_model_close(&none), gguf_model_close(&some);
}

/* ---- overrides ---- */

static void overrides_keep_types(void **state) {
    (void)state;
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
    model_write(m, path("types.gguf"));
    model_free(m);
    gq_output out = {path("types-out.gguf"), "COPY"};
    gq_options o = options_for(path("types.gguf"), &out);
    o.override_kv = (gq_list){items, sizeof items / sizeof *items};
    gq_plan_free(run_plan(&o));
    gguf_model done = open_model(path("types-out.gguf"));
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        assert_int_equal(type_of(&done, wanted[i].key), wanted[i].type);
    double f;
    assert_int_equal(int_of(&done, "a.u8"), 255);
    assert_true(int_of(&done, "a.i64") == INT64_MIN);
    assert_true(gguf_kv_float(kv_of(&done, "a.f32"), &f) && f == 10000);
    assert_true(gguf_kv_float(kv_of(&done, "a.f64"), &f) && f == 0.1);
    assert_int_equal(int_of(&done, "a.u16"), 3);
    assert_int_equal(int_of(&done, "b.int"), 8);
    assert_int_equal(int_of(&done, "b.negative"), -7);
    assert_memory_equal(kv_of(&done, "b.large")->value, "\377\377\377\377\377\377\377\377", 8);
    assert_int_equal(kv_of(&done, "b.yes")->value[0], 1);
    assert_int_equal(kv_of(&done, "b.no")->value[0], 0);
    assert_int_equal(kv_of(&done, "b.text")->size, 8);
    gguf_model_close(&done);
}

static void malformed_overrides_are_refused(void **state) {
    (void)state;
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
        "general.alignment=int:64",
        "split.count=int:2",
        "llama.block_count=int:4294967296",
        "llama.block_count=int:-1",
        "llama.block_count=float:1.5",
    };
    char text[400] = "key=str:", name[200] = "";
    write_llama(path("override.gguf"), 1);
    gq_output out = {path("override-out.gguf"), "COPY"};
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

static void overrides_reach_the_mix(void **state) {
    (void)state;
    static const char *const item = "llama.expert_count=int:8";
    size_t n;
    bool found = false;
    write_llama(path("experts.gguf"), 1);
    gq_output out = {path("experts-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("experts.gguf"), &out);
    o.override_kv = (gq_list){&item, 1};
    gq_plan *plan = must_plan(&o);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(t[i].name, "blk.0.attn_k.weight")) found = t[i].to == GGUF_Q8_0;
    assert_true(found); /* with eight experts, K is Q8_0 */
    gq_plan_free(plan);
}

/* ---- pruning ---- */

static void pruning_renumbers_and_slices(void **state) {
    (void)state;
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
    model_write(m, path("six.gguf"));
    model_free(m);
    gq_output out = {path("four.gguf"), "COPY"};
    gq_options o = options_for(path("six.gguf"), &out);
    o.prune_layers = "4,1,4,99";
    gq_plan *plan = run_plan(&o);
    gguf_model in = open_model(path("six.gguf")), done = open_model(path("four.gguf"));
    size_t n_warnings;
    assert_string_equal(gq_plan_warnings(plan, &n_warnings)[0], "--prune-layers: the model has no layer 99");
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
    assert_true(gguf_kv_array(kv_of(&done, "llama.attention.head_count_kv"), &type, &n, &elements));
    assert_int_equal(n, 4);
    assert_memory_equal(elements, ((uint32_t[]){10, 12, 13, 15}), 16);
    assert_true(gguf_kv_array(kv_of(&done, "llama.names"), &type, &n, &elements));
    assert_int_equal(n, 4);
    assert_memory_equal(elements,
                        "\0\0\0\0\0\0\0\0"
                        "\2\0\0\0\0\0\0\0bb"
                        "\0\0\0\0\0\0\0\0"
                        "\1\0\0\0\0\0\0\0d",
                        35);
    const char *label;
    assert_true(gguf_kv_string(kv_of(&done, "general.size_label"), &label, &n) && n == 4);
    assert_memory_equal(label, "2.5M", 4); /* 2 x 512 x 256 outside the blocks, 557568 in each of four */
    assert_true(gguf_kv_array(kv_of(&done, "llama.five"), &type, &n, &elements) && n == 5);
    assert_true(gguf_kv_array(kv_of(&done, "other.six"), &type, &n, &elements) && n == 6);
    const gq_tensor *tensors = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, "blk.3.attn_q.weight"))
            assert_string_equal(tensors[i].source_name, "blk.5.attn_q.weight");
    gguf_model_close(&in), gguf_model_close(&done);
    gq_plan_free(plan);
}

static void malformed_layer_lists_are_refused(void **state) {
    (void)state;
    static const char *const lists[] = {"", "a", "1,", ",1", "1,,2", "-1", "1 ", "0,1", "9999999999"};
    write_llama(path("two.gguf"), 2);
    gq_output out = {path("two-out.gguf"), "COPY"};
    gq_options o = options_for(path("two.gguf"), &out);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        o.prune_layers = lists[i];
        must_refuse(&o, GQ_USAGE, "prun");
    }
}

/* ---- importance ---- */

static void put(FILE *f, const void *bytes, size_t n) { assert_int_equal(fwrite(bytes, 1, n, f), n); }
static void put_int(FILE *f, int32_t n) { put(f, &n, 4); }

static void put_entry(FILE *f, const char *name, int32_t calls, int32_t n, float scale) {
    float *x = random_values((uint64_t)n, (uint64_t)name[4] + 1);
    for (int32_t i = 0; i < n; i++) x[i] = x[i] * x[i] * scale * (float)calls;
    put_int(f, (int32_t)strlen(name));
    put(f, name, strlen(name));
    put_int(f, calls), put_int(f, n);
    put(f, x, 4 * (size_t)n);
    free(x);
}

/* The legacy layout: entries for attn_q and ffn_down of each block. */
static void write_matrix(const char *to, uint32_t blocks) {
    char name[64];
    FILE *f = fopen(to, "wb");
    put_int(f, (int32_t)(2 * blocks));
    for (uint32_t b = 0; b < blocks; b++) {
        snprintf(name, sizeof name, "blk.%u.attn_q.weight", b);
        put_entry(f, name, 3, 256, 1);
        snprintf(name, sizeof name, "blk.%u.ffn_down.weight", b);
        put_entry(f, name, 3, 512, 1);
    }
    put_int(f, 40), put_int(f, 9), put(f, "calib.txt", 9);
    fclose(f);
}

static void importance_is_matched(void **state) {
    (void)state;
    size_t n;
    write_llama(path("cover.gguf"), 2);
    write_matrix(path("cover.dat"), 2);
    gq_output out = {path("cover-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("cover.gguf"), &out);
    o.imatrix = path("cover.dat");
    gq_plan *plan = run_plan(&o);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool entry = strstr(t[i].name, "attn_q") || strstr(t[i].name, "ffn_down");
        bool kept = t[i].from == t[i].to;
        assert_int_equal(t[i].importance, kept    ? GQ_IMPORTANCE_UNUSED
                                          : entry ? GQ_IMPORTANCE_FULL
                                                  : GQ_IMPORTANCE_MISSING);
        assert_int_equal(isnan(gq_loss_weighted(gq_plan_loss(plan, 0, i))) != 0, !entry);
    }
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_importance, 2 + 2 * 5);
    assert_true(warned(plan, "token_embd.weight"));
    gq_plan_free(plan);
    /* Another model's matrix, and one that is filtered away. */
    static const char *const nothing = "nothing", *const query = "attn_q";
    o.include_weights = (gq_list){&nothing, 1};
    o.force = true;
    plan = must_plan(&o);
    assert_true(warned(plan, "filter"));
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_importance, 0);
    gq_plan_free(plan);
    o.include_weights.n = 0, o.exclude_weights = (gq_list){&query, 1};
    plan = must_plan(&o);
    assert_int_equal(gq_plan_summary(plan, 0)->n_without_importance, 4 + 2 * 5);
    gq_plan_free(plan);
    o.include_weights = (gq_list){&query, 1};
    must_refuse(&o, GQ_USAGE, "both be named");
}

static void importance_of_the_wrong_size(void **state) {
    (void)state;
    write_llama(path("size.gguf"), 1);
    gq_output out = {path("size-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("size.gguf"), &out);
    o.imatrix = path("size.dat");
    FILE *f = fopen(o.imatrix, "wb");
    put_int(f, 1);
    put_entry(f, "blk.0.attn_q.weight", 1, 255, 1);
    fclose(f);
    must_refuse(&o, GQ_FAILED, "blk.0.attn_q.weight");
    must_refuse(&o, GQ_FAILED, "255");
    must_refuse(&o, GQ_FAILED, "256");
    f = fopen(o.imatrix, "wb");
    put_int(f, 2);
    put_entry(f, "token_embd.weight", 1, 255, 1), put_entry(f, "blk.0.attn_q.weight", 1, 256, 1);
    fclose(f);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "255"));
    gq_plan_free(plan);
}

static void nothing_matched_is_loud(void **state) {
    (void)state;
    write_llama(path("alien.gguf"), 1);
    gq_output out = {path("alien-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("alien.gguf"), &out);
    o.imatrix = path("alien.dat");
    FILE *f = fopen(o.imatrix, "wb");
    put_int(f, 1);
    put_entry(f, "blk.77.attn_q.weight", 1, 256, 1);
    fclose(f);
    gq_plan *plan = must_plan(&o);
    assert_true(warned(plan, "another model"));
    gq_plan_free(plan);
}

/* Each expert is encoded with its own slice: the same as each alone with its slice. */
static void experts_get_their_own_slices(void **state) {
    (void)state;
    enum { COLUMNS = 256, ROWS = 8, EXPERTS = 3 };
    float *x = random_values(COLUMNS * ROWS * EXPERTS, 3), *w = random_values(COLUMNS * EXPERTS, 4);
    for (int i = 0; i < COLUMNS * EXPERTS; i++) w[i] = expf(100 * w[i]);
    model *all = model_new("llama", 1);
    model_add(all, "blk.0.ffn_down_exps.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS, EXPERTS}, x);
    model_write(all, path("all.gguf"));
    model_free(all);
    FILE *f = fopen(path("all.dat"), "wb");
    put_int(f, 1), put_int(f, 26), put(f, "blk.0.ffn_down_exps.weight", 26), put_int(f, 1);
    put_int(f, COLUMNS * EXPERTS), put(f, w, 4 * COLUMNS * EXPERTS);
    fclose(f);
    gq_output out = {path("all-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("all.gguf"), &out);
    o.pure = true;
    o.imatrix = path("all.dat");
    gq_plan_free(run_plan(&o));
    gguf_model together = open_model(path("all-out.gguf"));
    uint64_t size, one;
    uint8_t *whole = tensor_bytes(&together, "blk.0.ffn_down_exps.weight", &size);
    for (int k = 0; k < EXPERTS; k++) {
        model *single = model_new("llama", 1);
        model_add(single, "blk.0.ffn_down.weight", GGUF_F32, (uint64_t[4]){COLUMNS, ROWS},
                  x + k * COLUMNS * ROWS);
        model_write(single, path("one.gguf"));
        model_free(single);
        f = fopen(path("one.dat"), "wb");
        put_int(f, 1), put_int(f, 21), put(f, "blk.0.ffn_down.weight", 21), put_int(f, 1);
        put_int(f, COLUMNS), put(f, w + k * COLUMNS, 4 * COLUMNS);
        fclose(f);
        gq_output alone = {path("one-out.gguf"), "Q4_K_S"};
        gq_options p = options_for(path("one.gguf"), &alone);
        p.pure = p.force = true;
        p.imatrix = path("one.dat");
        gq_plan_free(run_plan(&p));
        gguf_model m = open_model(path("one-out.gguf"));
        uint8_t *bytes = tensor_bytes(&m, "blk.0.ffn_down.weight", &one);
        assert_int_equal(one * EXPERTS, size);
        assert_memory_equal(bytes, whole + (uint64_t)k * one, one);
        free(bytes);
        gguf_model_close(&m);
    }
    free(whole), free(x), free(w);
    gguf_model_close(&together);
}

static void pruned_layers_keep_their_importance(void **state) {
    (void)state;
    size_t n;
    write_llama(path("prune.gguf"), 3);
    write_matrix(path("prune.dat"), 2); /* nothing for block 2, which becomes block 1 */
    gq_output out = {path("prune-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("prune.gguf"), &out);
    o.imatrix = path("prune.dat");
    o.prune_layers = "0";
    gq_plan *plan = must_plan(&o);
    const gq_tensor *t = gq_plan_tensors(plan, 0, &n);
    int seen = 0;
    for (size_t i = 0; i < n; i++)
        if (strstr(t[i].name, "attn_q")) {
            bool first = !strcmp(t[i].name, "blk.0.attn_q.weight");
            assert_int_equal(t[i].importance, first ? GQ_IMPORTANCE_FULL : GQ_IMPORTANCE_MISSING);
            seen++;
        }
    assert_int_equal(seen, 2);
    gq_plan_free(plan);
}

/* ---- refusals ---- */

static void outputs_that_must_not_be_written(void **state) {
    (void)state;
    write_llama(path("in.gguf"), 1);
    write_whole(path("there.gguf"), "x", 1);
    gq_output out = {path("there.gguf"), "COPY"};
    gq_options o = options_for(path("in.gguf"), &out);
    must_refuse(&o, GQ_FAILED, "is there already");
    o.force = true;
    gq_plan_free(run_plan(&o));
    assert_same_file(path("there.gguf"), path("there.gguf"));
    out.path = path("in.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    assert_int_equal(symlink("in.gguf", path("link.gguf")), 0);
    out.path = path("link.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    assert_int_equal(link(path("in.gguf"), path("hard.gguf")), 0);
    out.path = path("hard.gguf");
    must_refuse(&o, GQ_FAILED, "one of the inputs");
    out.path = path("no/such/folder.gguf");
    must_refuse(&o, GQ_FAILED, "does not exist");
    out.path = path("in.gguf/x.gguf");
    must_refuse(&o, GQ_FAILED, "cannot write");
    out.path = folder;
    must_refuse(&o, GQ_FAILED, "not a regular file");
    out.path = path("/");
    must_refuse(&o, GQ_USAGE, "no file name");
    gq_output twice[] = {{path("x.gguf"), "COPY"}, {path("x.gguf"), "F32"}};
    o.outputs = twice, o.n_outputs = 2;
    must_refuse(&o, GQ_USAGE, "two outputs");
}

static void types_that_cannot_be(void **state) {
    (void)state;
    static const struct {
        uint32_t from;
        const char *filetype, *says;
        bool allow;
        gq_status status;
    } cases[] = {
        {GGUF_Q8_0, "Q4_K_S", "already quantized", false, GQ_FAILED},
        {GGUF_IQ2_XS, "Q4_K_S", "cannot decode", true, GQ_FAILED},
        {GGUF_I32, "Q4_K_S", "cannot decode", false, GQ_FAILED},
        {GGUF_F16, "Q4_K_Q", "did you mean", false, GQ_USAGE},
        {GGUF_F16, "Q2_K_S", "needs importance data", false, GQ_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        model *m = model_new("llama", 1);
        model_add(m, "blk.0.attn_q.weight", cases[i].from, (uint64_t[4]){256, 4}, NULL);
        model_write(m, path("type.gguf"));
        model_free(m);
        gq_output out = {path("type-out.gguf"), cases[i].filetype};
        gq_options o = options_for(path("type.gguf"), &out);
        o.allow_requantize = cases[i].allow;
        must_refuse(&o, cases[i].status, cases[i].says);
    }
}

static void requantizing_goes_through_the_decoder(void **state) {
    (void)state;
    write_llama(path("requant.gguf"), 1);
    quantize(path("requant.gguf"), path("requant-5.gguf"), "Q5_K_S", 1);
    gq_output out = {path("requant-4.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("requant-5.gguf"), &out);
    o.allow_requantize = true;
    gq_plan_free(run_plan(&o));
    gq_output wide = {path("requant-32.gguf"), "F32"}, four = {path("requant-32-4.gguf"), "Q4_K_S"};
    o.outputs = &wide;
    gq_plan_free(run_plan(&o));
    o.input = path("requant-32.gguf"), o.outputs = &four;
    gq_plan_free(run_plan(&o));
    gguf_model a = open_model(path("requant-4.gguf")), b = open_model(path("requant-32-4.gguf"));
    uint64_t n;
    uint8_t *x = tensor_bytes(&a, "blk.0.attn_q.weight", &n),
            *y = tensor_bytes(&b, "blk.0.attn_q.weight", &n);
    assert_memory_equal(x, y, n);
    free(x), free(y);
    gguf_model_close(&a), gguf_model_close(&b);
}

static void strict_makes_fallbacks_errors(void **state) {
    (void)state;
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){96, 64}, NULL);
    model_write(m, path("strict.gguf"));
    model_free(m);
    gq_output out = {path("strict-out.gguf"), "Q4_K_S"};
    gq_options o = options_for(path("strict.gguf"), &out);
    gq_plan *plan = must_plan(&o);
    const gq_summary *s = gq_plan_summary(plan, 0);
    assert_int_equal(s->n_fallbacks, 1);
    /* Q5_0 in place of Q4_K: 22 bytes for 32 weights, not 144 for 256. */
    assert_int_equal(s->fallback_bytes, 96 * 64 / 32 * 22 - 96 * 64 * 144 / 256);
    assert_true(warned(plan, "blk.0.attn_q.weight"));
    gq_plan_free(plan);
    o.strict = true;
    must_refuse(&o, GQ_FAILED, "blk.0.attn_q.weight");
}

/* A list of one byte at the very end of the file: nothing behind it is read. */
static void facts_come_from_short_lists(void **state) {
    (void)state;
    model *m = model_new("short", 2);
    model_set_array(m, "short.block_count", GGUF_U8, "\2", 1);
    model_write(m, path("short.gguf"));
    model_free(m);
    gq_output out = {path("short-out.gguf"), "COPY"};
    gq_options o = options_for(path("short.gguf"), &out);
    gq_plan_free(must_plan(&o));
}

static void a_split_output_is_known_by_its_first_shard(void **state) {
    (void)state;
    write_llama(path("parts.gguf"), 2);
    gq_output out = {path("parts-out.gguf"), "Q8_0"};
    gq_options o = options_for(path("parts.gguf"), &out);
    o.split_max_size = 400000;
    gq_plan *plan = must_plan(&o);
    const char *name = strrchr(gq_plan_summary(plan, 0)->path, '/') + 1;
    assert_memory_equal(name, "parts-out-00001-of-0000", strlen("parts-out-00001-of-0000"));
    gq_plan_free(plan);
}

static void requests_that_make_no_sense(void **state) {
    (void)state;
    write_llama(path("sense.gguf"), 1);
    gq_output out = {path("sense-out.gguf"), "COPY"};
    gq_options good = options_for(path("sense.gguf"), &out), o = good;
    o.n_outputs = 0;
    must_refuse(&o, GQ_USAGE, "output");
    o = good, o.effort = 3;
    must_refuse(&o, GQ_USAGE, "effort");
    o = good, o.threads = -1;
    must_refuse(&o, GQ_USAGE, "threads");
    o = good, o.part = 3, o.parts = 2;
    must_refuse(&o, GQ_USAGE, "part 3 of 2");
    o = good, o.keep_split = true, o.split_max_size = 1;
    must_refuse(&o, GQ_USAGE, "split");
    o = good, o.output_tensor_type = "Q9_K";
    must_refuse(&o, GQ_USAGE, "Q9_K");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_names_come_from_the_input),
        cmocka_unit_test(metadata_keep_their_order_and_bytes),
        cmocka_unit_test(a_copy_keeps_its_file_type),
        cmocka_unit_test(overrides_keep_types),
        cmocka_unit_test(malformed_overrides_are_refused),
        cmocka_unit_test(overrides_reach_the_mix),
        cmocka_unit_test(pruning_renumbers_and_slices),
        cmocka_unit_test(malformed_layer_lists_are_refused),
        cmocka_unit_test(importance_is_matched),
        cmocka_unit_test(importance_of_the_wrong_size),
        cmocka_unit_test(nothing_matched_is_loud),
        cmocka_unit_test(experts_get_their_own_slices),
        cmocka_unit_test(pruned_layers_keep_their_importance),
        cmocka_unit_test(outputs_that_must_not_be_written),
        cmocka_unit_test(types_that_cannot_be),
        cmocka_unit_test(requantizing_goes_through_the_decoder),
        cmocka_unit_test(strict_makes_fallbacks_errors),
        cmocka_unit_test(facts_come_from_short_lists),
        cmocka_unit_test(a_split_output_is_known_by_its_first_shard),
        cmocka_unit_test(requests_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
