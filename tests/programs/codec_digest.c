/* codec-digest FOLDER: one line per type, effort and importance with the CRC-32 of the encoded bytes, and one
 * per type with that of the decoded golden blocks in FOLDER (TYPE.blocks). Built for two kinds of CPU, it
 * shows that both write the same files. Needs nothing but the codecs. */
#include <stdio.h>
#include <stdlib.h>

#include "codec/codec.h"
#include "tests/support/numbers.h"

enum { ROWS = 11, COLS = 768, N = ROWS * COLS, MOST_BYTES = 4 * N };

static uint32_t crc32(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* Rows of many sizes, with outliers, zeros, signs of one kind, ties, and weights too small for binary16
 * factors. */
static void fill_rows(float *x) {
    static const float sizes[ROWS] = {1, 0.02f, 1e3f, 1e-3f, 1e-4f, 1e-6f, 1e-8f, 1e-39f, 1, 1, 0};
    for (int r = 0; r < ROWS; r++, x += COLS) {
        fill_normal(x, COLS, sizes[r]);
        for (int i = 0; i < COLS; i++) {
            if (r == 1 && next_random() % 100 == 0) x[i] *= 20;
            if (r == 8) x[i] = x[i] < 0 ? -x[i] : x[i];
            if (r == 9) x[i] = (float)(int)(8 * x[i]) * 0.5f;
        }
    }
}

static void print_encodes(const tensor_type *type, const codec *c, const float *x, const float *w) {
    static uint8_t blocks[MOST_BYTES];
    for (codec_effort effort = EFFORT_FAST; effort <= EFFORT_BEST; effort++)
        for (int on = 0; on < 2; on++) {
            c->encode(x, blocks, ROWS, COLS, on ? w : NULL, &(encode_settings){.effort = effort});
            printf("%s effort %d importance %d %08x\n", type->name, effort, on,
                   crc32(blocks, gguf_row_bytes(type, N)));
        }
}

static bool print_decode(const tensor_type *type, const codec *c, const char *folder) {
    static uint8_t blocks[1 << 20];
    static float x[1 << 20];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.blocks", folder, type->name);
    FILE *f = fopen(path, "rb");
    if (!f) return fprintf(stderr, "codec-digest: cannot open %s\n", path), false;
    size_t n = fread(blocks, type->block_bytes, sizeof blocks / type->block_bytes, f) * type->block_elements;
    fclose(f);
    if (n == 0 || n > sizeof x / sizeof *x)
        return fprintf(stderr, "codec-digest: %s: bad size\n", path), false;
    c->decode(blocks, 0, x, n);
    printf("%s decode %08x\n", type->name, crc32((const uint8_t *)x, 4 * n));
    return true;
}

int main(int argc, char **argv) {
    static float x[N], w[COLS];
    if (argc != 2) return fputs("usage: codec-digest FOLDER\n", stderr), 2;
    const kernels *k = kernels_select();
    if (!k) return fputs("codec-digest: this ISA level does not run here\n", stderr), 1;
    seed_random(1);
    fill_rows(x), fill_importance(w, COLS);
    w[5] = 0, w[40] = 1e-38f, w[300] = 1e30f;
    for (uint32_t id = 0; id < GGUF_TYPE_LIMIT; id++) {
        const codec *c = &k->codecs[id];
        if (!c->decode) continue;
        if (c->encode) print_encodes(tensor_type_of(id), c, x, w);
        if (!print_decode(tensor_type_of(id), c, argv[1])) return 1;
    }
    return 0;
}
