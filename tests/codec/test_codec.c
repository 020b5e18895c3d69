/* Decoders at every ISA level this CPU has, against golden vectors and against the scalar reference; what is
 * asked of rows beside that. */
#include "codec/codec.h"
#include "tests/support/codecs.h"

static void check_golden(const char *folder) {
    int checked = 0;
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const tensor_type *type = tensor_type_of(id);
        if (!type || !kernels_select()->codecs[id].decode) continue;
        char path[4200];
        size_t n_blocks, n_floats;
        snprintf(path, sizeof path, "%s/%s.blocks", folder, type->name);
        uint8_t *blocks = read_whole(path, &n_blocks);
        snprintf(path, sizeof path, "%s/%s.f32", folder, type->name);
        uint8_t *expected = read_whole(path, &n_floats);
        n_floats /= 4, n_blocks /= type->block_bytes;
        assert_int_equal(n_floats, n_blocks * type->block_elements);
        float *x = malloc(4 * n_floats);
        EACH_LEVEL(k) {
            memset(x, 0x55, 4 * n_floats);
            k->codecs[id].decode(blocks, 0, x, n_floats);
            if (memcmp(x, expected, 4 * n_floats))
                fail_msg("%s at %s differs from %s", type->name, kernels_name(k), path);
        }
        memset(x, 0x55, 4 * n_floats);
        assert_true(reference_decode(id, blocks, x, n_floats));
        if (memcmp(x, expected, 4 * n_floats))
            fail_msg("%s: the reference differs from %s", type->name, path);
        free(x), free(expected), free(blocks);
        checked++;
    }
    assert_true(checked > 20);
}
TEST(golden_decodes_of_this_repo) { check_golden(test_path("golden/decode")); }
TEST(golden_decodes) { check_golden(shared_path("golden/dequant")); }

/* Any bytes decode, and the same way everywhere (NaN compared as NaN). */
TEST(random_blocks_decode_as_the_reference_does) {
    enum { BLOCKS = 40 };
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const tensor_type *type = tensor_type_of(id);
        if (!type || !kernels_select()->codecs[id].decode) continue;
        size_t bytes = (size_t)BLOCKS * type->block_bytes, n = (size_t)BLOCKS * type->block_elements;
        uint8_t *blocks = malloc(bytes);
        float *expected = malloc(4 * n), *x = malloc(4 * n);
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < bytes; i++) blocks[i] = (uint8_t)(next_random() >> 32);
            /* The reference reads only legal scale bytes here; bit 7 of an E4M3 byte is ignored by kernels.
             */
            if (id == GGUF_NVFP4)
                for (size_t i = 0; i < bytes; i++)
                    if (i % 36 < 4) blocks[i] &= 0x7f;
            assert_true(reference_decode(id, blocks, expected, n));
            EACH_LEVEL(k) {
                k->codecs[id].decode(blocks, 0, x, n);
                for (size_t i = 0; i < n; i++)
                    if (memcmp(x + i, expected + i, 4) && !(x[i] != x[i] && expected[i] != expected[i]))
                        fail_msg("%s at %s: element %zu is %a, not %a", type->name, kernels_name(k), i,
                                 (double)x[i], (double)expected[i]);
            }
        }
        free(x), free(expected), free(blocks);
    }
}

TEST(not_finite_is_found_anywhere) {
    static float x[3000];
    EACH_LEVEL(k) {
        for (size_t n = 0; n < 40; n++) assert_int_equal(k->first_not_finite(x, n), n);
        assert_int_equal(k->first_not_finite(x, 3000), 3000);
        for (size_t i = 0; i < 3000; i += 7) {
            uint32_t bad = i % 2 ? 0xff800000 : 0x7fc00000 | (uint32_t)i, old;
            memcpy(&old, x + i, 4), memcpy(x + i, &bad, 4);
            assert_int_equal(k->first_not_finite(x, 3000), i);
            assert_int_equal(k->first_not_finite(x, i), i);
            memcpy(x + i, &old, 4);
        }
    }
}

TEST(measure_is_the_same_at_every_level_and_adds_up) {
    enum { ROWS = 3, COLS = 1000 };
    static float x[ROWS * COLS], y[ROWS * COLS], w[COLS];
    double x2 = 0, we2 = 0;
    for (size_t i = 0; i < COLS; i++) w[i] = (float)(next_random() >> 40) * 0x1p-20f;
    for (size_t i = 0; i < ROWS * COLS; i++) {
        x[i] = (float)(int64_t)next_random() * 0x1p-63f;
        y[i] = x[i] + (float)(int64_t)next_random() * 0x1p-70f;
        double e = (double)x[i] - (double)y[i];
        x2 += (double)x[i] * (double)x[i], we2 += (double)w[i % COLS] * e * e;
    }
    codec_error first = {0};
    kernels_select()->measure(x, y, ROWS, COLS, w, &first);
    assert_int_equal(first.n, ROWS * COLS);
    assert_true(first.x2 > x2 * (1 - 1e-5) && first.x2 < x2 * (1 + 1e-5));
    assert_true(first.we2 > we2 * (1 - 1e-4) && first.we2 < we2 * (1 + 1e-4));
    EACH_LEVEL(k) {
        codec_error whole = {0}, rows = {0};
        k->measure(x, y, ROWS, COLS, w, &whole);
        assert_memory_equal(&whole, &first, sizeof whole);
        for (int r = 0; r < ROWS; r++) k->measure(x + r * COLS, y + r * COLS, 1, COLS, w, &rows);
        assert_memory_equal(&rows, &first, sizeof rows);
    }
}

/* What tells kept work apart: each setting, and a setting that is off not at all. */
TEST(settings_have_a_digest) {
    const encode_settings plain = {.effort = EFFORT_DEFAULT};
    encode_settings other = plain;
    uint32_t sum = encode_settings_digest(7, &plain);
    assert_int_equal(encode_settings_digest(7, &other), sum);
    assert_int_not_equal(encode_settings_digest(8, &other), sum);
    other.effort = EFFORT_BEST;
    assert_int_not_equal(encode_settings_digest(7, &other), sum);
    other = plain, other.importance = 1;
    assert_int_not_equal(encode_settings_digest(7, &other), sum);
    other.importance = 2;
    assert_int_not_equal(encode_settings_digest(7, &other),
                         encode_settings_digest(7, &(encode_settings){1, 1}));
}

int main(void) { return tests_run(NULL, NULL); }
