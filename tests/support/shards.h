/* A model cut into shards, in the folder of a test program. */
#pragma once

#include "tests/support/command.h"
#include "tests/support/folder.h"

/* FOLDER/WHOLE.gguf with one tensor of 256 columns in each of n blocks, and the same in n shards of one
 * tensor each, FOLDER/CUT-0000k-of-0000n.gguf. seed 0: values that depend on the names. */
static inline void write_shards(const char *whole, const char *cut, uint32_t n, uint64_t rows,
                                uint64_t seed) {
    char name[64], most[32], in[64], out[64];
    model *m = model_new("llama", n);
    for (uint32_t b = 0; b < n; b++) {
        float *x = seed ? random_values(256 * rows, seed + b) : NULL;
        snprintf(name, sizeof name, "blk.%u.ffn_up.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, rows}, x);
        free(x);
    }
    snprintf(in, sizeof in, "%s.gguf", whole), snprintf(out, sizeof out, "%s.gguf", cut);
    model_save(m, path(in));
    snprintf(most, sizeof most, "%llu", 2 * 256 * (unsigned long long)rows + 8192);
    GQUANT(0, "-q", "--split-max-size", most, path(in), path(out), "COPY");
    snprintf(name, sizeof name, "%s-%05u-of-%05u.gguf", cut, n, n);
    assert_true(exists(path(name)));
}
