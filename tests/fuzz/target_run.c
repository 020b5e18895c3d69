/* The whole job. Head: file type, settings, length of importance data; then those, then the model. What comes
 * out can be read, and holds the tensors that were planned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quantize/gquant.h"
#include "tests/fuzz/fuzz.h"

enum { PURE = 1, REQUANTIZE = 2, BEST = 4, SPLIT = 8, PRUNE = 16, OVERRIDE = 32, IMPORTANCE = 64, TWO = 128 };

static void check_output(const gq_plan *plan, size_t o) {
    model_source m;
    gq_error e = {0};
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, o, &n);
    const gq_summary *s = gq_plan_summary(plan, o);
    PROMISE(gguf_model_open(&m, s->path, &e), "%s", e.text);
    PROMISE(m.n_tensors == n, "%llu tensors of %zu", (unsigned long long)m.n_tensors, n);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < gguf_container_of(&m)->n_shards; i++)
        bytes += gguf_container_of(&m)->shards[i].file.size;
    PROMISE(bytes == s->file_bytes, "%llu bytes, %llu were planned", (unsigned long long)bytes,
            (unsigned long long)s->file_bytes);
    for (size_t i = 0; i < n; i++) {
        const model_tensor *found = model_tensor_named(&m, t[i].name);
        PROMISE(found && found->type->id == t[i].to && !memcmp(found->ne, t[i].ne, sizeof t[i].ne), "%s",
                t[i].name);
    }
    model_close(&m);
}

static void run(const gq_options *options) {
    gq_error e = {0};
    gq_plan *plan = gq_plan_new(options, &e);
    if (plan && gq_run(plan, NULL, NULL, &e)) {
        for (size_t o = 0; o < gq_plan_outputs(plan); o++) check_output(plan, o);
    } else {
        fuzz_check_error(&e);
        FILE *f = fopen(options->outputs[0].path, "rb");
        PROMISE(!f, "failed, yet there is an output: %s", e.text);
    }
    gq_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    char model[300], matrix[300], out[2][300];
    const char *folder = fuzz_folder();
    size_t filetype = fuzz_byte(&in) % gq_filetype_count();
    unsigned settings = fuzz_byte(&in);
    size_t length = fuzz_u16(&in);
    if (length > in.n) length = in.n;
    snprintf(model, sizeof model, "%s/in.gguf", folder);
    snprintf(matrix, sizeof matrix, "%s/imatrix", folder);
    for (int i = 0; i < 2; i++) snprintf(out[i], sizeof out[i], "%s/out%d.gguf", folder, i);
    fuzz_write(matrix, in.bytes, length);
    fuzz_write(model, in.bytes + length, in.n - length);
    const gq_output outputs[2] = {{.path = out[0], .filetype = gq_filetype_name(filetype)},
                                  {.path = out[1], .filetype = "Q8_0"}};
    const char *const overrides[] = {"llama.block_count=int:1", "new.key=str:text"};
    const gq_options options = {.size = sizeof options,
                                .input = model,
                                .outputs = outputs,
                                .n_outputs = settings & TWO ? 2 : 1,
                                .imatrix = settings & IMPORTANCE ? matrix : NULL,
                                .threads = 2,
                                .effort = settings & BEST ? GQ_EFFORT_BEST : GQ_EFFORT_DEFAULT,
                                .pure = settings & PURE,
                                .allow_requantize = settings & REQUANTIZE,
                                .prune_layers = settings & PRUNE ? "0" : NULL,
                                .split_max_size = settings & SPLIT ? 2000 : 0,
                                .override_kv = {overrides, settings & OVERRIDE ? 2 : 0}};
    run(&options);
    fuzz_empty_folder();
    return 0;
}

void fuzz_seeds(const char *folder) {
    static const uint32_t types[] = {GGUF_F16, GGUF_BF16, GGUF_F32, GGUF_Q4_K, GGUF_Q8_0};
    size_t n_matrix, n_model, columns[] = {256, 32};
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        uint8_t settings = (uint8_t)(i * 37 | (i % 2 ? IMPORTANCE : 0) | REQUANTIZE);
        uint64_t width = types[i % 5] == GGUF_Q4_K ? 256 : columns[i / 5 % 2];
        uint8_t *matrix = fuzz_importance(width, i % 4 == 1, &n_matrix);
        uint8_t *model = fuzz_model(tensor_type_of(types[i % 5]), width, &n_model);
        uint8_t *both = malloc(4 + n_matrix);
        memcpy(both, (uint8_t[4]){(uint8_t)i, settings, (uint8_t)n_matrix, (uint8_t)(n_matrix >> 8)}, 4);
        memcpy(both + 4, matrix, n_matrix);
        fuzz_seed_behind(folder, gq_filetype_name(i), both, 4 + n_matrix, model, n_model);
        free(matrix), free(model), free(both);
    }
}
