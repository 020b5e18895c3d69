/* The writer: what it lays out is what the reader reads, and nothing else gets written. */
#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/support/gguf_bytes.h"

static gguf_header *new_header(void) {
    gq_error e;
    gguf_header *h = gguf_header_new(&e);
    assert_non_null(h);
    return h;
}

static void set(gguf_header *h, const char *key, uint32_t type, const void *value, uint64_t size) {
    gq_error e;
    if (!gguf_header_set(h, key, type, value, size, &e)) fail_msg("%s", e.text);
}

static void add(gguf_header *h, const char *name, const uint64_t *ne, uint32_t type) {
    gq_error e;
    if (!gguf_header_add_tensor(h, name, ne, tensor_type_of(type), &e)) fail_msg("%s", e.text);
}

/* Header and as many zeros as the data section takes. */
static bytes finish(gguf_header *h) {
    const uint8_t *head;
    uint64_t header_size, data_size;
    gq_error e;
    bytes b = {0};
    if (!gguf_header_finish(h, &head, &header_size, &data_size, &e)) fail_msg("%s", e.text);
    put(&b, head, header_size);
    put_zeros(&b, data_size);
    return b;
}

static void read_back(model_source *m, const bytes *b) {
    gq_error e;
    if (!gguf_model_memory(m, "written.gguf", b->data, b->n, &e)) fail_msg("%s", e.text);
}

static void refuses_to_finish(gguf_header *h, const char *says) {
    const uint8_t *head;
    uint64_t header_size, data_size;
    gq_error e;
    assert_false(gguf_header_finish(h, &head, &header_size, &data_size, &e));
    if (!strstr(e.text, says)) fail_msg("'%s' expected in: %s", says, e.text);
}

/* One pair of every value type, and the arrays that are easily got wrong. */
static void set_every_kind(gguf_header *h) {
    char key[32];
    static const uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    for (uint32_t type = GGUF_U8; type <= GGUF_FLOAT64; type++) {
        uint32_t size = gguf_value_size(type);
        bytes empty = {0}, array = {0};
        snprintf(key, sizeof key, "scalar.%s", gguf_value_name(type));
        if (size) set(h, key, type, ones, size);
        put_array(&empty, type, 0);
        snprintf(key, sizeof key, "empty.%s", gguf_value_name(type));
        set(h, key, GGUF_ARRAY, empty.data, empty.n);
        put_array(&array, type, 3);
        for (int i = 0; i < 3; i++) {
            if (type == GGUF_STRING) put_text(&array, i ? "text" : "");
            if (type == GGUF_ARRAY) put_array(&array, GGUF_U8, 2), put(&array, "ab", 2);
            put(&array, ones, size);
        }
        snprintf(key, sizeof key, "array.%s", gguf_value_name(type));
        set(h, key, GGUF_ARRAY, array.data, array.n);
        free(empty.data), free(array.data);
    }
    set(h, "a.nul", GGUF_STRING, "\5\0\0\0\0\0\0\0ab\0cd", 13);
    set(h, "not.utf8", GGUF_STRING, "\2\0\0\0\0\0\0\0\xff\xc0", 10);
    set(h, "nan", GGUF_FLOAT32, "\1\0\xc0\xff", 4);
    bytes nest = {0};
    for (int i = 1; i < GGUF_MAX_NESTING; i++) put_array(&nest, GGUF_ARRAY, 1);
    put_array(&nest, GGUF_STRING, 1), put_text(&nest, "deep");
    set(h, "a.nest", GGUF_ARRAY, nest.data, nest.n);
    free(nest.data);
    gq_error e;
    assert_true(gguf_header_set_string(h, "empty.text", "", &e));
}

TEST(every_value_survives_byte_for_byte) {
    gguf_header *h = new_header(), *again = new_header();
    model_source m;
    gq_error e;
    set_every_kind(h);
    add(h, "t", (uint64_t[]){5, 1, 1, 1}, GGUF_F32);
    bytes first = finish(h);
    read_back(&m, &first);
    const gguf_shard *s = &gguf_container_of(&m)->shards[0];
    assert_int_equal(s->version, 3);
    assert_int_equal(s->n_kv, 11 + 13 + 13 + 5);
    for (uint64_t i = 0; i < s->n_kv; i++) {
        const model_kv *expected = gguf_header_find(h, s->kv[i].key);
        assert_non_null(expected);
        assert_int_equal(s->kv[i].type, expected->type);
        assert_int_equal(s->kv[i].size, expected->size);
        assert_memory_equal(s->kv[i].value, expected->value, expected->size);
        assert_true(gguf_header_copy(again, &s->kv[i], &e));
    }
    add(again, "t", (uint64_t[]){5, 1, 1, 1}, GGUF_F32);
    bytes second = finish(again);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.data, second.data, first.n);
    gguf_header_free(h), gguf_header_free(again);
    model_close(&m);
    free(first.data), free(second.data);
}

TEST(setting_a_key_moves_it_to_the_end) {
    gguf_header *h = new_header();
    model_source m;
    gq_error e;
    uint32_t value = 1;
    model_kv borrowed = {"b", GGUF_U32, (const uint8_t *)&value, sizeof value};
    assert_true(gguf_header_set_u32(h, "a", 10, &e));
    assert_true(gguf_header_copy(h, &borrowed, &e));
    assert_true(gguf_header_set_string(h, "c", "text", &e));
    assert_true(gguf_header_set_u32(h, "d", 13, &e));
    assert_true(gguf_header_set_string(h, "a", "new", &e));
    assert_true(gguf_header_set_u32(h, "b", 11, &e));
    const model_kv *c = gguf_header_find(h, "c"); /* its own value and key, handed back */
    assert_true(gguf_header_set(h, c->key, c->type, c->value, c->size, &e));
    gguf_header_remove(h, "d");
    gguf_header_remove(h, "absent");
    assert_null(gguf_header_find(h, "d"));
    bytes b = finish(h);
    read_back(&m, &b);
    const model_kv *kv = m.kv;
    const char *text;
    uint64_t length;
    int64_t number;
    assert_int_equal(m.n_kv, 3);
    assert_string_equal(kv[0].key, "a");
    assert_true(model_kv_string(&kv[0], &text, &length) && length == 3 && memcmp(text, "new", 3) == 0);
    assert_string_equal(kv[1].key, "b");
    assert_true(model_kv_int(&kv[1], &number) && number == 11);
    assert_string_equal(kv[2].key, "c");
    assert_true(model_kv_string(&kv[2], &text, &length) && length == 4 && memcmp(text, "text", 4) == 0);
    model_close(&m);
    gguf_header_free(h);
    free(b.data);
}

TEST(trailing_ones_go_and_one_dimension_stays) {
    static const struct {
        uint64_t ne[4];
        uint32_t n_dims;
    } shapes[] = {{{64, 4, 1, 1}, 2}, {{64, 1, 1, 1}, 1}, {{1, 1, 1, 1}, 1},
                  {{64, 1, 3, 1}, 3}, {{1, 1, 1, 2}, 4},  {{1, 64, 1, 1}, 2}};
    enum { N = sizeof shapes / sizeof *shapes };
    gguf_header *h = new_header();
    model_source m;
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "t.%d", i);
        add(h, name, shapes[i].ne, GGUF_F16);
    }
    bytes b = finish(h);
    read_back(&m, &b);
    for (int i = 0; i < N; i++) {
        assert_int_equal(gguf_container_of(&m)->shards[0].tensors[i].n_dims, shapes[i].n_dims);
        assert_memory_equal(gguf_container_of(&m)->shards[0].tensors[i].ne, shapes[i].ne,
                            sizeof shapes[i].ne);
    }
    model_close(&m);
    gguf_header_free(h);
    free(b.data);
}

/* The strict layout: data order, no holes, and padding after the last tensor, too. */
TEST(tensors_are_packed_on_the_declared_alignment) {
    static const uint32_t alignments[] = {0, 1, 8, 32, 64, 4096, 1 << 20}; /* 0: the key is absent */
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        uint64_t alignment = alignments[i] ? alignments[i] : 32;
        gguf_header *h = new_header();
        model_source m;
        gq_error e;
        if (alignments[i]) assert_true(gguf_header_set_u32(h, "general.alignment", alignments[i], &e));
        add(h, "z", (uint64_t[]){5, 1, 1, 1}, GGUF_F32);
        add(h, "a", (uint64_t[]){256, 3, 1, 1}, GGUF_Q4_K);
        add(h, "m", (uint64_t[]){33, 1, 1, 1}, GGUF_I8);
        bytes b = finish(h);
        read_back(&m, &b);
        uint64_t at = gguf_container_of(&m)->shards[0].data_offset, sizes[] = {20, 432, 33};
        assert_int_equal(gguf_container_of(&m)->shards[0].alignment, alignment);
        assert_int_equal(at % alignment, 0);
        for (uint64_t t = 0; t < 3; t++) {
            assert_int_equal(gguf_header_tensor_offset(h, t), at);
            assert_int_equal(m.tensors[t]->size, sizes[t]);
            assert_int_equal(m.tensors[t]->offset, at);
            at += (sizes[t] + alignment - 1) / alignment * alignment;
        }
        assert_int_equal(b.n, at);
        model_close(&m);
        gguf_header_free(h);
        free(b.data);
    }
}

TEST(an_empty_header_is_a_padded_file) {
    gguf_header *h = new_header();
    model_source m;
    bytes b = finish(h);
    assert_int_equal(b.n, 32);
    read_back(&m, &b);
    assert_int_equal(m.n_tensors, 0);
    model_close(&m);
    free(b.data);
    add(h, "later", (uint64_t[]){1, 1, 1, 1}, GGUF_F32); /* a header can grow after it was laid out */
    b = finish(h);
    read_back(&m, &b);
    assert_non_null(model_tensor_named(&m, "later"));
    model_close(&m);
    gguf_header_free(h);
    gguf_header_free(NULL);
    free(b.data);
}

TEST(bad_keys_and_values_are_refused) {
    gguf_header *h = new_header();
    gq_error e;
    char *key = malloc(65537);
    memset(key, 'k', 65536);
    key[65536] = 0;
    assert_false(gguf_header_set_u32(h, key, 1, &e));
    assert_non_null(strstr(e.text, "65536 bytes"));
    key[65535] = 0;
    assert_true(gguf_header_set_u32(h, key, 1, &e));
    assert_false(gguf_header_set_u32(h, "", 1, &e));
    assert_false(gguf_header_set(h, "my.key", GGUF_U32, "12345678", 8, &e));
    assert_non_null(strstr(e.text, "my.key"));
    assert_non_null(strstr(e.text, "u32 has 4 bytes, not 8"));
    assert_null(gguf_header_find(h, "my.key"));
    gguf_header_free(h);
    free(key);
}

TEST(bad_tensors_are_refused) {
    gguf_header *h = new_header();
    const tensor_type *f32 = tensor_type_of(GGUF_F32), *q4_k = tensor_type_of(GGUF_Q4_K);
    gq_error e;
    char name[129];
    memset(name, 'n', 128);
    name[128] = 0;
    assert_false(gguf_header_add_tensor(h, name, (uint64_t[]){1, 1, 1, 1}, f32, &e));
    assert_non_null(strstr(e.text, "128 bytes"));
    name[127] = 0;
    assert_true(gguf_header_add_tensor(h, name, (uint64_t[]){1, 1, 1, 1}, f32, &e));
    assert_false(gguf_header_add_tensor(h, "", (uint64_t[]){1, 1, 1, 1}, f32, &e));
    assert_false(gguf_header_add_tensor(h, "t", (uint64_t[]){64, 1, 1, 1}, q4_k, &e));
    assert_non_null(strstr(e.text, "'t': row length 64"));
    assert_false(gguf_header_add_tensor(h, "t", (uint64_t[]){64, 0, 1, 1}, f32, &e));
    assert_false(gguf_header_add_tensor(h, "t", (uint64_t[]){1ull << 62, 1, 1, 1}, f32, &e));
    bytes b = finish(h);
    model_source m;
    read_back(&m, &b);
    assert_int_equal(m.n_tensors, 1);
    model_close(&m);
    gguf_header_free(h);
    free(b.data);
}

TEST(what_would_not_be_read_is_not_laid_out) {
    gq_error e;
    gguf_header *h = new_header();
    model_kv pair = {"twice", GGUF_U8, (const uint8_t *)"\1", 1};
    assert_true(gguf_header_copy(h, &pair, &e) && gguf_header_copy(h, &pair, &e));
    refuses_to_finish(h, "key 'twice'");
    gguf_header_free(h);

    h = new_header();
    add(h, "twice", (uint64_t[]){1, 1, 1, 1}, GGUF_F32);
    add(h, "twice", (uint64_t[]){2, 1, 1, 1}, GGUF_F32);
    refuses_to_finish(h, "tensor 'twice'");
    gguf_header_free(h);

    h = new_header();
    assert_true(gguf_header_set_u32(h, "general.alignment", 48, &e));
    refuses_to_finish(h, "general.alignment is 48");
    gguf_header_free(h);

    h = new_header();
    add(h, "half", (uint64_t[]){1ull << 62, 1, 1, 1}, GGUF_I8);
    add(h, "whole", (uint64_t[]){1ull << 62, 1, 1, 1}, GGUF_I8);
    refuses_to_finish(h, "tensor 'whole'");
    gguf_header_free(h);
}

TEST(many_pairs_and_tensors_fit) {
    gguf_header *h = new_header();
    model_source m;
    gq_error e;
    char name[32];
    for (uint32_t i = 0; i < 1500; i++) {
        snprintf(name, sizeof name, "n.%u", i);
        assert_true(gguf_header_set_u32(h, name, i, &e));
        add(h, name, (uint64_t[]){1 + i % 7, 1, 1, 1}, GGUF_F32);
    }
    bytes b = finish(h);
    read_back(&m, &b);
    for (uint32_t i = 0; i < 1500; i++) {
        int64_t value;
        snprintf(name, sizeof name, "n.%u", i);
        assert_true(model_kv_int(model_kv_find(m.kv, 1500, name), &value) && value == i);
        assert_int_equal(model_tensor_named(&m, name)->ne[0], 1 + i % 7);
    }
    model_close(&m);
    gguf_header_free(h);
    free(b.data);
}

int main(void) { return tests_run(NULL, NULL); }
