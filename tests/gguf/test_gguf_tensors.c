/* The reader and the tensor table: names, shapes, ranges. */
#include "tests/support/gguf_bytes.h"

static const uint64_t one_dim[] = {8}; /* as F32: 32 bytes, one unit of alignment */

/* A file with one tensor of that shape and type; `data` bytes follow the padding. */
static bytes one_tensor(uint32_t n_dims, const uint64_t *ne, uint32_t type, uint64_t offset, size_t data) {
    bytes b = file_head(3, 1, 0);
    put_tensor(&b, "t.weight", n_dims, ne, type, offset);
    pad(&b, 32);
    put_zeros(&b, data);
    return b;
}

TEST(tensor_names_have_1_to_127_bytes_and_differ) {
    char name[129];
    memset(name, 'n', 128);
    name[127] = name[128] = 0;
    bytes b = file_head(3, 1, 0);
    put_tensor(&b, name, 1, one_dim, GGUF_F32, 0);
    pad(&b, 32), put_zeros(&b, 32);
    assert_accepted(b);
    name[127] = 'n';
    b = file_head(3, 1, 0);
    put_tensor(&b, name, 1, one_dim, GGUF_F32, 0);
    assert_refused(b, "128 bytes", "127");
    b = file_head(3, 1, 0);
    put_tensor(&b, "", 1, one_dim, GGUF_F32, 0);
    put_zeros(&b, 1);
    assert_refused(b, "tensor 1 of 1", "empty");
    b = file_head(3, 1, 0);
    put_u64(&b, 3), put(&b, "a\0b", 3);
    put_zeros(&b, 40);
    assert_refused(b, "NUL", "position 1");
    b = file_head(3, 3, 0);
    put_tensor(&b, "same", 1, one_dim, GGUF_F32, 0);
    put_tensor(&b, "other", 1, one_dim, GGUF_F32, 32);
    put_tensor(&b, "same", 1, one_dim, GGUF_F32, 64);
    pad(&b, 32), put_zeros(&b, 96);
    assert_refused(b, "tensor 'same'", "duplicate");
    b = file_head(3, 1, 0);
    put_tensor(&b, "\x1b[31m", 5, (uint64_t[5]){1, 1, 1, 1, 1}, GGUF_F32, 0);
    assert_refused(b, "tensor '\\x1b[31m'", "5 dimensions");
}

TEST(shapes_are_checked_by_division) {
    static const struct {
        uint32_t n_dims;
        uint64_t ne[4];
        uint32_t type;
        const char *says;
    } bad[] = {
        {0, {0}, GGUF_F32, "0 dimensions"},
        {1, {0}, GGUF_F32, "dimension 0 is 0"},
        {2, {64, 0}, GGUF_F32, "dimension 1 is 0"},
        {4, {1, 1, 1, 0}, GGUF_F32, "dimension 3 is 0"},
        {1, {UINT64_MAX}, GGUF_I8, "2^63 elements"},
        {1, {1ull << 63}, GGUF_I8, "2^63 elements"},
        {2, {1ull << 32, 1ull << 32}, GGUF_I8, "2^63 elements"},
        {2, {1ull << 32, 1ull << 31}, GGUF_I8, "2^63 elements"},
        {2, {64, (1ull << 58) + 4}, GGUF_F32, "2^63 elements"},
        {4, {65536, 65536, 65536, 65536}, GGUF_F32, "2^63 elements"},
        {1, {INT64_MAX}, GGUF_I8, "2^63 bytes"}, /* would not fit after padding */
        {1, {1ull << 62}, GGUF_F32, "2^63 bytes"},
        {2, {8, (1ull << 60) - 1}, GGUF_F16, "2^63 bytes"},
        {2, {64, (1ull << 56) + 4}, GGUF_F32, "2^63 bytes"},
        {2, {64, 4}, GGUF_Q4_K, "multiple of 256"},
        {2, {33, 4}, GGUF_Q8_0, "multiple of 32"},
        {2, {64, 4}, 4, "type 4"},
        {2, {64, 4}, 38, "type 38"},
        {2, {64, 4}, 43, "type 43"},
        {2, {64, 4}, UINT32_MAX, "type 4294967295"},
        {2, {64, 4}, GGUF_F32, "1024 bytes"}, /* one byte short, below */
        {2, {1 << 20, 1 << 20}, GGUF_F32, "bytes"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(one_tensor(bad[i].n_dims, bad[i].ne, bad[i].type, 0, 1023), "t.weight", bad[i].says);
    assert_accepted(
        one_tensor(2, (uint64_t[]){64, 4}, GGUF_F32, 0, 1024)); /* no tail padding needed anywhere */
    assert_accepted(one_tensor(4, (uint64_t[]){1, 1, 1, 1}, GGUF_F16, 0, 2));
    assert_accepted(one_tensor(3, (uint64_t[]){256, 2, 3}, GGUF_Q6_K, 0, 1260));
    bytes b = file_head(3, 1, 0); /* more dimensions than there is room for */
    put_tensor(&b, "t.weight", 4, (uint64_t[]){1, 1, 1, 1}, GGUF_F32, 0);
    memset(b.data + 24 + 16, 0xff, 4);
    assert_refused(b, "t.weight", "4294967295 dimensions");
}

static bytes two_tensors(uint64_t first, uint64_t second) {
    bytes b = file_head(3, 2, 0);
    put_tensor(&b, "first", 1, (uint64_t[]){16}, GGUF_F32, first);
    put_tensor(&b, "second", 1, (uint64_t[]){16}, GGUF_F32, second);
    pad(&b, 32), put_zeros(&b, 256);
    return b;
}

TEST(ranges_are_aligned_inside_and_apart) {
    assert_accepted(two_tensors(0, 64));
    assert_accepted(two_tensors(64, 0));
    assert_accepted(two_tensors(192, 32));
    assert_refused(two_tensors(0, 0), "'second'", "overlap");
    assert_refused(two_tensors(0, 32), "'second'", "overlap");
    assert_refused(two_tensors(96, 64), "'first'", "overlap");
    assert_refused(two_tensors(0, 65), "'second'", "alignment 32");
    assert_refused(two_tensors(16, 64), "'first'", "alignment 32");
    assert_refused(two_tensors(0, 224), "'second'", "ends at byte");
    assert_refused(two_tensors(0, 256), "'second'", "ends at byte");
    assert_refused(two_tensors(0, 1 << 20), "'second'", "ends at byte");
    assert_refused(two_tensors(0, 1ull << 63), "'second'", "ends at byte");
    assert_refused(two_tensors(0, UINT64_MAX - 31), "'second'", "ends at byte");
    assert_refused(two_tensors(0, UINT64_MAX - 127), "'second'", "ends at byte");
    bytes b = two_tensors(0, 64);
    b.n = 24 + 8 + 5 + 4 + 8 + 4 + 8 + 8 + 6 + 4 + 8 + 4 + 8; /* nothing behind the table, not even padding */
    assert_refused(b, "'first'", "ends at byte");
}

TEST(tensors_keep_shape_place_and_order) {
    bytes b = file_head(2, 3, 0);
    put_tensor(&b, "c", 4, (uint64_t[]){32, 2, 1, 1}, GGUF_Q8_0, 64);
    put_tensor(&b, "a", 1, (uint64_t[]){5}, GGUF_F32, 160);
    put_tensor(&b, "b", 2, (uint64_t[]){4, 3}, GGUF_BF16, 0);
    pad(&b, 32);
    uint64_t data = b.n;
    put_zeros(&b, 180);
    model_source m;
    gq_error e;
    assert_true(gguf_model_memory(&m, "order.gguf", b.data, b.n, &e));
    const gguf_shard *s = &gguf_container_of(&m)->shards[0];
    assert_int_equal(s->version, 2);
    assert_int_equal(s->alignment, 32);
    assert_int_equal(s->data_offset, data);
    assert_string_equal(s->tensors[0].name, "c");
    assert_string_equal(s->tensors[1].name, "a");
    assert_string_equal(s->tensors[2].name, "b");
    static const struct {
        const char *name;
        uint64_t offset, size, ne[4];
        uint32_t n_dims, type;
    } expected[] = {{"b", 0, 24, {4, 3, 1, 1}, 2, GGUF_BF16},
                    {"c", 64, 68, {32, 2, 1, 1}, 4, GGUF_Q8_0},
                    {"a", 160, 20, {5, 1, 1, 1}, 1, GGUF_F32}};
    assert_int_equal(m.n_tensors, 3);
    for (size_t i = 0; i < 3; i++) {
        const model_tensor *t = m.tensors[i];
        assert_string_equal(t->name, expected[i].name);
        assert_int_equal(t->offset, data + expected[i].offset);
        assert_int_equal(t->size, expected[i].size);
        assert_memory_equal(t->ne, expected[i].ne, sizeof t->ne);
        assert_int_equal(t->n_dims, expected[i].n_dims);
        assert_int_equal(t->type->id, expected[i].type);
        assert_int_equal(t->shard, 0);
        assert_ptr_equal(model_tensor_named(&m, expected[i].name), t);
    }
    assert_null(model_tensor_named(&m, "d"));
    model_close(&m);
    assert_null(model_tensor_named(&m, "a"));
    free(b.data);
}

int main(void) { return tests_run(NULL, NULL); }
