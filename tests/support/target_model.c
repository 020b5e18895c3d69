#include "tests/support/target_model.h"

#include "tests/support/imatrix_files.h"

void target_model(const char *folder) {
    static const struct {
        const char *name;
        uint64_t rows;
    } parts[] = {{"attn_q", 40},      {"attn_k", 11}, {"attn_v", 13},
                 {"attn_output", 37}, {"ffn_up", 61}, {"ffn_down", 59}};
    char name[64];
    model *m = model_new("llama", 7);
    for (int b = 0; b < 6; b++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", b, parts[i].name);
            model_add(m, name, GGUF_F16, (uint64_t[4]){256, parts[i].rows}, NULL);
        }
    model_add(m, "token_embd.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
    model_add(m, "output.weight", GGUF_F16, (uint64_t[4]){256, 101}, NULL);
    model_add(m, "output_norm.weight", GGUF_F32, (uint64_t[4]){256}, NULL);
    model_set_u32(m, "llama.expert_count", 4);
    model_set_u32(m, "llama.expert_used_count", 2);
    model_add(m, "blk.6.ffn_up_exps.weight", GGUF_F16, (uint64_t[4]){256, 9, 4}, NULL);
    model_add(m, "blk.6.ffn_down_exps.weight", GGUF_F32, (uint64_t[4]){96, 16, 4}, NULL);
    model_add(m, "blk.6.odd.weight", GGUF_F32, (uint64_t[4]){100, 16}, NULL);
    model_save(m, in_folder(folder, "in.gguf"));
    blob b = {0};
    float values[256];
    for (int i = 0; i < 256; i++) values[i] = (float)(1 + i % 7);
    put32(&b, 1);
    put_entry(&b, "blk.2.ffn_up.weight", 1, values, 256);
    put_trailer(&b, 1, "made up");
    write_whole(in_folder(folder, "imatrix.dat"), b.bytes, b.n);
    free(b.bytes);
}

static void count(void *user, const gq_progress *p) { *(uint64_t *)user = p->weights_done; }

gq_plan *plan_for(gq_options o, bool *measured) {
    gq_error e;
    uint64_t weights = 0;
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &weights, .progress = count};
    o.callbacks = &callbacks;
    gq_plan *plan = gq_plan_new(&o, &e);
    if (!plan) fail_msg("%s", e.text);
    if (measured) *measured = weights > 0;
    return plan;
}

char *types_of(const gq_plan *plan, size_t output) {
    size_t n;
    const gq_tensor *t = gq_plan_tensors(plan, output, &n);
    char *text = calloc(n + 1, 8);
    for (size_t i = 0; i < n; i++) sprintf(text + strlen(text), "%u ", t[i].to);
    return text;
}

void assert_types(gq_plan *plan, const char *wanted) {
    char *found = types_of(plan, 0);
    gq_plan_free(plan);
    assert_string_equal(found, wanted);
    free(found);
}
