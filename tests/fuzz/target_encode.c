/* Encoders: type, effort, columns and importance, then weights. Every ISA level writes the same bytes, and
 * what they decode to is finite. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_BLOCKS = 4, HEAD = 3 };

typedef struct problem {
    const tensor_type *type;
    codec_effort effort;
    size_t rows, columns;
    float *x, *column; /* column: NULL without importance */
} problem;

/* The next number of the input, made what the encoder's caller promises: finite, and not too large. */
static float next_float(fuzz_input *in, float limit) {
    uint32_t bits = fuzz_u16(in);
    bits |= fuzz_u16(in) << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return isfinite(x) && fabsf(x) <= limit ? x : 0;
}

static void encode(const kernels *k, const problem *p, uint8_t *blocks, size_t size) {
    const codec *c = &k->codecs[p->type->id];
    size_t n = p->rows * p->columns;
    memset(blocks, 0xee, size);
    c->encode(p->x, blocks, p->rows, p->columns, p->column, &(encode_settings){.effort = p->effort});
    float *decoded = malloc(n * sizeof *decoded);
    c->decode(blocks, 0, decoded, n);
    for (size_t i = 0; i < n; i++)
        PROMISE(isfinite(decoded[i]), "%s at %s: weight %zu, %a, becomes %a", p->type->name, kernels_name(k),
                i, (double)p->x[i], (double)decoded[i]);
    free(decoded);
}

static void compare(const problem *p) {
    size_t size = p->rows * gguf_row_bytes(p->type, p->columns);
    uint8_t *first = malloc(size), *blocks = malloc(size);
    const char *first_level = NULL;
    for (size_t level = 0; kernels_level_name(level); level++) {
        const kernels *k = kernels_level(kernels_level_name(level));
        if (!k) continue;
        encode(k, p, first_level ? blocks : first, size);
        if (!first_level) {
            first_level = kernels_name(k);
            continue;
        }
        size_t i = 0;
        while (i < size && blocks[i] == first[i]) i++;
        PROMISE(i == size,
                "%s: byte %zu of %zu is %02x at %s and %02x at %s (%zu rows of %zu, effort %d, %s)",
                p->type->name, i, size, first[i < size ? i : 0], first_level, blocks[i < size ? i : 0],
                kernels_name(k), p->rows, p->columns, p->effort, p->column ? "importance" : "no importance");
    }
    free(first), free(blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    uint8_t type = fuzz_byte(&in) % GGUF_TYPE_LIMIT, setting = fuzz_byte(&in), shape = fuzz_byte(&in);
    const codec *c = &kernels_select()->codecs[type];
    if (!c->encode) return -1;
    problem p = {.type = tensor_type_of(type), .effort = setting % 3, .rows = 1 + shape / MAX_BLOCKS % 3};
    p.columns = (1 + shape % MAX_BLOCKS) * (size_t)p.type->block_elements;
    p.x = malloc(p.rows * p.columns * sizeof *p.x);
    p.column = setting & 0x80 ? malloc(p.columns * sizeof *p.column) : NULL;
    for (size_t i = 0; i < p.rows * p.columns; i++) p.x[i] = next_float(&in, c->max_magnitude);
    for (size_t i = 0; p.column && i < p.columns; i++) p.column[i] = fabsf(next_float(&in, INFINITY));
    compare(&p);
    free(p.x), free(p.column);
    return 0;
}

void fuzz_seeds(const char *folder) {
    static uint8_t bytes[HEAD + 3 * 256 * 4];
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        if (!tensor_type_of(id)) continue;
        for (uint8_t setting = 0; setting < 2; setting++) {
            char name[64];
            bytes[0] = (uint8_t)id, bytes[1] = setting ? 0x81 : 1, bytes[2] = 1;
            for (size_t i = 0; i < 3 * 256; i++) {
                float x = (float)((i * 7919 + 13) % 1001) / 500 - 1;
                memcpy(bytes + HEAD + 4 * i, &x, sizeof x);
            }
            snprintf(name, sizeof name, "%s-%u", tensor_type_name(id), setting);
            fuzz_seed(folder, name, bytes, sizeof bytes);
        }
    }
}
