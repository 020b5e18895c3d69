#include "tests/codecs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const gguf_type *encoder_of(uint32_t id) {
    return id < GGUF_TYPE_LIMIT && kernels_select()->codecs[id].encode ? gguf_type_of(id) : NULL;
}

const char *effort_name(codec_effort effort) {
    static const char *const names[] = {"fast", "default", "best"};
    return names[effort];
}

size_t encoded_size(const gguf_type *type, size_t rows, size_t cols) {
    return gguf_type_bytes(type, rows * cols);
}

uint8_t *encode_everywhere(const gguf_type *type, const float *x, size_t rows, size_t cols,
                           const float *importance, codec_effort effort) {
    enum { GUARD = 64, FILL = 0xa5 };
    size_t bytes = encoded_size(type, rows, cols);
    uint8_t *first = NULL;
    codec_importance object = {importance};
    EACH_LEVEL(k) {
        /* At an odd address: blocks are. */
        uint8_t *room = malloc(bytes + 2 * GUARD + 1), *blocks = room + GUARD + 1;
        assert_non_null(room);
        memset(room, FILL, bytes + 2 * GUARD + 1);
        k->codecs[type->id].encode(x, blocks, rows, cols, importance ? &object : NULL,
                                   &(encode_settings){.effort = effort});
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

float *through(const gguf_type *type, const float *x, size_t rows, size_t cols, const float *importance,
               codec_effort effort) {
    uint8_t *blocks = encode_everywhere(type, x, rows, cols, importance, effort);
    float *y = malloc(4 * rows * cols);
    assert_non_null(y);
    kernels_select()->codecs[type->id].decode(blocks, y, rows * cols);
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
