/* write.c: write OUT
 * Makes a small model in F16 from arrays, writes it, and reads a part of it again. */
#include <gquant.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 256, ROWS = 512, MATRICES = 3 };
static const char *const names[MATRICES] = {"token_embd.weight", "blk.0.ffn_gate.weight",
                                            "blk.0.ffn_up.weight"};

/* Random weights from -1 to 1, the same each time. */
static void fill_weights(float *x, size_t n, uint32_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = 1664525 * seed + 1013904223;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
}

static bool set_text(gq_gguf_builder *b, const char *key, const char *text, gq_error *e) {
    const gq_value value = {.kind = GQ_TEXT, .text = text, .length = strlen(text)};
    return gq_gguf_builder_set(b, key, "string", false, &value, 1, e);
}

static bool set_number(gq_gguf_builder *b, const char *key, uint64_t number, gq_error *e) {
    const gq_value value = {.kind = GQ_UNSIGNED, .as_unsigned = number};
    return gq_gguf_builder_set(b, key, "u32", false, &value, 1, e);
}

/* Encodes a matrix of random weights as F16 and adds it. The model borrows the blocks. */
static bool add_matrix(gq_gguf_builder *b, const char *name, uint32_t seed, void *blocks, size_t bytes,
                       gq_error *e) {
    static float x[ROWS * COLUMNS];
    const uint64_t ne[] = {COLUMNS, ROWS}; /* the length of a row comes first */
    const uint32_t f16 = (uint32_t)gq_type_find("F16");
    fill_weights(x, ROWS * COLUMNS, seed);
    return gq_encode(f16, ROWS, COLUMNS, x, NULL, blocks, bytes, NULL, e) &&
           gq_gguf_builder_add(b, name, 2, ne, f16, blocks, bytes, e);
}

static bool write_model(const char *path, gq_error *e) {
    size_t bytes = 0; /* of one matrix */
    if (!gq_array_bytes((uint32_t)gq_type_find("F16"), ROWS, COLUMNS, &bytes, e)) return false;
    char *blocks = malloc(MATRICES * bytes);
    if (!blocks) return gq_fail_memory(e, MATRICES * bytes);
    gq_gguf_builder *b = gq_gguf_builder_new(e);
    bool ok = b && set_text(b, "general.architecture", "llama", e) &&
              set_text(b, "general.type", "part", e) && set_number(b, "llama.block_count", 1, e);
    for (uint32_t i = 0; ok && i < MATRICES; i++)
        ok = add_matrix(b, names[i], i, blocks + i * bytes, bytes, e);
    ok = ok && gq_gguf_builder_write(b, path, false, e); /* false: does not replace a file */
    gq_gguf_builder_free(b);
    free(blocks); /* after the model, which borrowed them */
    return ok;
}

/* Prints the first four weights of a tensor. */
static bool print_weights(const char *path, const char *tensor, gq_error *e) {
    gq_model *m = gq_model_open(path, e);
    float x[4];
    bool ok = m && gq_model_read(m, gq_model_find(m, tensor), 0, 4, x, e);
    if (ok) printf("%s: %s begins %.4f %.4f %.4f %.4f\n", path, tensor, x[0], x[1], x[2], x[3]);
    gq_model_close(m);
    return ok;
}

int main(int argc, char **argv) {
    gq_error e;
    if (argc != 2) return fputs("usage: write OUT\n", stderr), 2;
    if (write_model(argv[1], &e) && print_weights(argv[1], names[1], &e)) return 0;
    fprintf(stderr, "write: %s\n", e.text);
    return 1;
}
