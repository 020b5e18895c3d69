/* What a model says of itself: keys of its architecture, and blocks in names. */
#include "gguf/facts.h"
#include "gguf/model.h"
#include "tests/support/support.h"

static const model_kv *text(model_kv *kv, uint8_t *room, const char *key, const char *value, uint64_t n) {
    memcpy(room, &n, 8), memcpy(room + 8, value, n);
    *kv = (model_kv){.key = key, .type = GGUF_STRING, .value = room, .size = 8 + n};
    return kv;
}

static void list(model_kv *kv, uint8_t *room, const char *key, uint32_t type, uint64_t n,
                 const void *elements) {
    memcpy(room, &type, 4), memcpy(room + 4, &n, 8);
    memcpy(room + 12, elements, n * gguf_value_size(type));
    *kv = (model_kv){.key = key, .type = GGUF_ARRAY, .value = room, .size = 12 + n * gguf_value_size(type)};
}

TEST(keys_are_those_of_the_architecture) {
    uint8_t rooms[4][200];
    uint32_t count = 7, other = 9, last = 11;
    model_kv kv[4] = {{.key = "llama.block_count", .type = GGUF_U32, .value = (uint8_t *)&count, .size = 4}};
    text(&kv[1], rooms[1], "general.architecture", "llama", 5);
    list(&kv[2], rooms[2], "llama.heads", GGUF_INT32, 3, (const int32_t[]){4, -5, 6});
    list(&kv[3], rooms[3], "llama.slides", GGUF_BOOL, 2, (const uint8_t[]){1, 0});
    model_facts f = model_facts_of(kv, 4, NULL, 0);
    int64_t n = -1;
    assert_string_equal(f.arch, "llama");
    assert_true(model_fact_int(&f, "block_count", &n) && n == 7);
    assert_true(model_fact_int(&f, "heads", &n) && n == 4); /* the first */
    assert_true(model_fact_at(model_fact(&f, "heads"), 1, &n) && n == -5);
    assert_true(model_fact_at(model_fact(&f, "heads"), 2, &n) && n == 6);
    assert_false(model_fact_at(model_fact(&f, "heads"), 3, &n));
    assert_true(model_fact_at(model_fact(&f, "slides"), 0, &n) && n == 1);
    assert_true(model_fact_at(model_fact(&f, "slides"), 1, &n) && n == 0);
    assert_true(model_fact_at(model_fact(&f, "block_count"), 5, &n) && n == 7); /* no list: for all */
    assert_null(model_fact(&f, "absent"));
    assert_false(model_fact_int(&f, "absent", &n));
    assert_true(model_facts_find(&f, "general.architecture") == &kv[1]);

    model_kv set[2] = {{.key = "llama.block_count", .type = GGUF_U32, .value = (uint8_t *)&other, .size = 4},
                       {.key = "llama.block_count", .type = GGUF_U32, .value = (uint8_t *)&last, .size = 4}};
    f = model_facts_of(kv, 4, set, 2);
    assert_true(model_fact_int(&f, "block_count", &n) && n == 11);
    text(&set[1], rooms[0], "general.architecture", "qwen2", 5);
    f = model_facts_of(kv, 4, set, 2);
    assert_string_equal(f.arch, "qwen2");
    assert_false(model_fact_int(&f, "block_count", &n));
}

TEST(odd_values_are_no_facts) {
    uint8_t rooms[3][200];
    char much[128];
    model_kv kv[3];
    int64_t n;
    memset(much, 'a', sizeof much);
    text(&kv[0], rooms[0], "general.architecture", much, 127);
    assert_int_equal(strlen(model_facts_of(kv, 1, NULL, 0).arch), 127);
    text(&kv[0], rooms[0], "general.architecture", much, 128);
    assert_string_equal(model_facts_of(kv, 1, NULL, 0).arch, "");
    text(&kv[0], rooms[0], "general.architecture", "a\0b", 3);
    assert_string_equal(model_facts_of(kv, 1, NULL, 0).arch, "");
    text(&kv[0], rooms[0], "general.architecture", "a", 1);
    list(&kv[1], rooms[1], "a.none", GGUF_U32, 0, "");
    list(&kv[2], rooms[2], "a.texts", GGUF_STRING, 0, "");
    memcpy(rooms[2] + 4, &(uint64_t){1}, 8); /* one empty text */
    memset(rooms[2] + 12, 0, 8);
    model_facts f = model_facts_of(kv, 3, NULL, 0);
    assert_false(model_fact_int(&f, "none", &n));
    assert_false(model_fact_int(&f, "texts", &n));
    assert_string_equal(model_facts_of(NULL, 0, NULL, 0).arch, "");
}

TEST(names_hold_blocks) {
    static const struct {
        const char *name;
        int64_t number;   /* as llama.cpp reads it */
        int64_t leads;    /* -1: no block leads the name */
        int64_t in;       /* -1: there is none in it */
        const char *rest; /* behind the latter */
    } known[] = {
        {"blk.0.ffn_up.weight", 0, 0, 0, "ffn_up.weight"},
        {"blk.12.x", 12, 12, 12, "x"},
        {"blk.999999999.x", 999999999, 999999999, 999999999, "x"},
        {"blk.1234567890.x", 1234567890, -1, -1, NULL},
        {"blk.99999999999999999999.x", INT64_MAX, -1, -1, NULL},
        {"blk.007.x", 7, -1, -1, NULL},
        {"blk.3", 3, -1, -1, NULL},
        {"blk.3x.y", 3, -1, -1, NULL},
        {"blk..x", -1, -1, -1, NULL},
        {"blk.-1.x", -1, -1, -1, NULL},
        {"v.blk.4.x", -1, -1, 4, "x"},
        {"blk.01.blk.2.x", 1, -1, 2, "x"},
        {"output.weight", -1, -1, -1, NULL},
        {"", -1, -1, -1, NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        model_block leading, b;
        const char *name = known[i].name;
        assert_int_equal(model_block_number(name), known[i].number);
        assert_int_equal(model_block_leads(name, &leading) ? (int64_t)leading.number : -1, known[i].leads);
        bool found = model_block_in(name, &b);
        assert_int_equal(found ? (int64_t)b.number : -1, known[i].in);
        if (!found) continue;
        assert_string_equal(b.rest, known[i].rest);
        assert_memory_equal(b.digits - 4, "blk.", 4);
    }
}

int main(void) { return tests_run(NULL, NULL); }
