#include "tests/support/codecs.h"

#include <math.h>

/* Two factors rounded to binary16. */
#define HALF 0x1p-10f

/* clang-format off */
const codec_known codecs_known[] = {
    {GGUF_F32, 0, 0, 0, 0, .halves = {-1, -1}, .single = true},
    {GGUF_F16, HALF / 2, HALF / 2, HALF / 2, HALF / 2, .halves = {0, -1}},
    {GGUF_BF16, 0x1p-8f, 0x1p-8f, 0x1p-8f, 0x1p-8f, .halves = {-1, -1}, .exponents = 1, .n_exponents = 1},
    {GGUF_Q4_0, 0.087f, 1 / 15.0f, HALF, HALF, .halves = {0, -1}},
    {GGUF_Q4_1, 0.077f, 1 / 15.0f, HALF, 5 * HALF, .halves = {0, 2}},
    {GGUF_Q5_0, 0.044f, 1 / 31.0f, HALF, HALF, .halves = {0, -1}},
    {GGUF_Q5_1, 0.038f, 1 / 31.0f, HALF, 5 * HALF, .halves = {0, 2}},
    {GGUF_Q8_0, 0.0056f, 1 / 254.0f, HALF, HALF, .halves = {0, -1}},
    {GGUF_Q2_K, 0.285f, 1 / 3.0f, HALF, 5 * HALF, .halves = {80, 82}},
    {GGUF_Q3_K, 0.152f, 1 / 7.0f, HALF, HALF, .halves = {108, -1}},
    {GGUF_Q4_K, 0.074f, 1 / 15.0f, 2 * HALF, 5 * HALF, .halves = {0, 2}},
    {GGUF_Q5_K, 0.037f, 1 / 31.0f, 2 * HALF, 5 * HALF, .halves = {0, 2}},
    {GGUF_Q6_K, 0.0182f, 1 / 63.0f, HALF, HALF, .halves = {208, -1}},
    /* No zero in its table: the zeros beside a weight of 127 are 1. sqrt(31) / 127. */
    {GGUF_IQ4_NL, 0.079f, 1 / 15.0f, HALF, 0.06f, .halves = {0, -1}},
    {GGUF_IQ4_XS, 0.080f, 1 / 15.0f, 0.01f, 0.06f, .halves = {0, -1}},
    {GGUF_TQ1_0, 0.50f, 0.5f, HALF, HALF, .halves = {52, -1}},
    {GGUF_TQ2_0, 0.50f, 0.5f, HALF, HALF, .halves = {64, -1}},
    /* 1 and 1.5 are the neighbors farthest apart: 0.25 / 1.25. */
    {GGUF_MXFP4, 0.117f, 0.11f, 0.2f, 0.2f, .halves = {-1, -1}, .exponents = 0, .n_exponents = 1},
    {GGUF_NVFP4, 0.092f, 0.11f, 0.05f, 0.06f, .halves = {-1, -1}, .exponents = 0, .n_exponents = 4},
    /* Every weight gets the same magnitude; a single weight among zeros is lost. */
    {GGUF_Q1_0, 0.64f, 0.55f, HALF, 1.5f, .halves = {0, -1}},
    {GGUF_Q2_0, 0.40f, 1 / 3.0f, HALF, HALF, .halves = {0, -1}},
    {GGUF_IQ1_S, 0.52f, 0.6f, 0.2f, 1.5f, .halves = {0, -1}},
    {GGUF_IQ1_M, 0.49f, 0.6f, 0.2f, 1.5f, .halves = {-1, -1}, .spread = 48},
    {GGUF_IQ2_XXS, 0.38f, 0.5f, 0.1f, 1.0f, .halves = {0, -1}},
    {GGUF_IQ2_XS, 0.326f, 0.4f, 0.1f, 1.0f, .halves = {0, -1}},
    {GGUF_IQ2_S, 0.272f, 0.4f, 0.1f, 1.0f, .halves = {0, -1}},
    {GGUF_IQ3_XXS, 0.20f, 0.3f, 0.1f, 0.5f, .halves = {0, -1}},
    {GGUF_IQ3_S, 0.146f, 0.2f, 0.1f, 0.5f, .halves = {0, -1}},
    {GGUF_Q8_1, .halves = {0, 2}},
    {GGUF_Q8_K, .halves = {-1, -1}, .single = true},
};
/* clang-format on */
const size_t n_codecs_known = sizeof codecs_known / sizeof *codecs_known;

const codec_known *known_of(uint32_t type) {
    for (size_t i = 0; i < n_codecs_known; i++)
        if (codecs_known[i].type == type) return &codecs_known[i];
    fail_msg("%s has a codec, but no row in tests/support/codecs.c", tensor_type_name(type));
    return NULL;
}

const tensor_type *encoder_of(uint32_t id) {
    return id < GGUF_TYPE_LIMIT && kernels_select()->codecs[id].encode ? tensor_type_of(id) : NULL;
}

bool fuses(const kernels *k) {
    return strcmp(kernels_name(k), "x86-64-v2") && strcmp(kernels_name(k), "generic");
}

const char *effort_name(codec_effort effort) {
    static const char *const names[] = {"fast", "default", "best"};
    return names[effort];
}

size_t encoded_size(const tensor_type *type, size_t rows, size_t cols) {
    return rows * gguf_row_bytes(type, cols);
}

uint8_t *encode_everywhere(const tensor_type *type, const float *x, size_t rows, size_t cols,
                           const float *importance, codec_effort effort) {
    enum { GUARD = 64, FILL = 0xa5 };
    size_t bytes = encoded_size(type, rows, cols);
    uint8_t *first = NULL;
    EACH_LEVEL(k) {
        /* At an odd address: blocks are. */
        uint8_t *room = malloc(bytes + 2 * GUARD + 1), *blocks = room + GUARD + 1;
        assert_non_null(room);
        memset(room, FILL, bytes + 2 * GUARD + 1);
        k->codecs[type->id].encode(x, blocks, rows, cols, importance, &(encode_settings){.effort = effort});
        for (size_t i = 0; i < GUARD; i++)
            if (blocks[-1 - (long)i] != FILL || blocks[bytes + i] != FILL)
                fail_msg("%s at %s wrote outside its output", type->name, kernels_name(k));
        if (!first) {
            first = malloc(bytes);
            assert_non_null(first);
            memcpy(first, blocks, bytes);
        }
        for (size_t i = 0; i < bytes; i++)
            if (blocks[i] != first[i])
                fail_msg("%s, effort %s, importance %s: byte %zu of block %zu is %02x at %s, not %02x",
                         type->name, effort_name(effort), importance ? "on" : "off", i % type->block_bytes,
                         i / type->block_bytes, blocks[i], kernels_name(k), first[i]);
        free(room);
    }
    return first;
}

float *through(const tensor_type *type, const float *x, size_t rows, size_t cols, const float *importance,
               codec_effort effort) {
    uint8_t *blocks = encode_everywhere(type, x, rows, cols, importance, effort);
    float *y = malloc(4 * rows * cols);
    assert_non_null(y);
    kernels_select()->codecs[type->id].decode(blocks, 0, y, rows * cols);
    free(blocks);
    return y;
}

bool all_finite(const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

double relative_error(const float *x, const float *y, size_t rows, size_t cols, const float *importance) {
    double e2 = 0, x2 = 0;
    for (size_t i = 0; i < rows * cols; i++) {
        double w = importance ? (double)importance[i % cols] : 1, e = (double)x[i] - (double)y[i];
        e2 += w * e * e, x2 += w * (double)x[i] * (double)x[i];
    }
    return x2 > 0 || e2 > 0 ? sqrt(e2 / x2) : 0;
}
