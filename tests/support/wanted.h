/* For tests of interrupted runs: a model, and the file that all of them must produce. */
#pragma once

#include "tests/support/folder.h"
#include "tests/support/runs.h"

/* Some forty chunks, few of them small. */
static int set_up(void **state) {
    (void)state;
    char name[64];
    folder = temporary_folder();
    model *m = model_new("llama", 10);
    for (int b = 0; b < 10; b++) {
        snprintf(name, sizeof name, "blk.%d.ffn_up.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){1024, 3100}, NULL);
        snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", b);
        model_add(m, name, GGUF_F32, (uint64_t[4]){1023}, NULL);
    }
    model_save(m, path("in.gguf"));
    quantize(path("in.gguf"), path("wanted.gguf"), "Q4_K_S", 2);
    return 0;
}

static gq_options options_for(const gq_output *out) { return run_options(path("in.gguf"), out, 2); }
