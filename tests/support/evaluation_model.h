/* A small model that can be run, with letters as tokens. */
#pragma once

#include "tests/support/token_model.h"

/* A tensor of random values; of one dimension: ones. In every 64th column a norm has `outlier` times that,
 * and the matrix after it that much less: the same function, with a few input columns that much larger.
 */
static inline void add_outlier_weights(model *m, const char *name, float scale, uint64_t columns,
                                       uint64_t rows, float outlier) {
    uint64_t n = columns * (rows ? rows : 1), seed = 0;
    for (const char *c = name; *c; c++) seed = seed * 31 + (unsigned char)*c;
    float *x = random_values(n, seed);
    for (uint64_t i = 0; i < n; i++) x[i] = rows ? scale * x[i] : 1;
    for (uint64_t i = 45; i < n && outlier != 1; i += 64) x[i] *= rows ? 1 / outlier : outlier;
    model_add(m, name, rows ? GGUF_F16 : GGUF_F32, (uint64_t[4]){columns, rows}, x);
    free(x);
}

static inline void add_weights(model *m, const char *name, float scale, uint64_t columns, uint64_t rows) {
    add_outlier_weights(m, name, scale, columns, rows, 1);
}

/* A llama of 256 columns and 512 tokens, whose logits differ by a few units; the weights of one matrix, if it
 * is named, are a ten thousandth of the others'. outlier: as in add_outlier_weights, at all norms; 1: none.
 * Without the tensors after the last block. */
static inline model *evaluation_model_blocks(uint32_t blocks, const char *quiet, float outlier) {
    static const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {{"attn_norm", 256, 0},  {"attn_q", 256, 256},      {"attn_k", 256, 64},
                 {"attn_v", 256, 64},    {"attn_output", 256, 256}, {"ffn_norm", 256, 0},
                 {"ffn_gate", 256, 512}, {"ffn_up", 256, 512},      {"ffn_down", 512, 256}};
    model *m = model_new("llama", blocks);
    float epsilon = 1e-5f;
    char name[64];
    model_set_u32(m, "llama.attention.head_count", 8);
    model_set_u32(m, "llama.attention.head_count_kv", 2);
    model_set_u32(m, "llama.embedding_length", 256);
    model_set_u32(m, "llama.feed_forward_length", 512);
    model_set_u32(m, "llama.context_length", 64);
    model_set(m, "llama.attention.layer_norm_rms_epsilon", GGUF_FLOAT32, &epsilon, 4);
    token_model_letters(m, true, 512);
    add_weights(m, "token_embd.weight", 30, 256, 512);
    for (uint32_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "blk.%u.%s.weight", b, parts[i].name);
            bool behind_norm = !strstr(name, "attn_output") && !strstr(name, "ffn_down");
            add_outlier_weights(m, name, quiet && !strcmp(name, quiet) ? 5e-4F : 5, parts[i].columns,
                                parts[i].rows, behind_norm ? outlier : 1);
        }
    return m;
}

/* Whole, with an output matrix of its own. */
static inline model *evaluation_model_but(uint32_t blocks, const char *quiet, float outlier) {
    model *m = evaluation_model_blocks(blocks, quiet, outlier);
    add_outlier_weights(m, "output_norm.weight", 1, 256, 0, outlier);
    add_outlier_weights(m, "output.weight", 5, 256, 512, outlier);
    return m;
}

/* Whole, with its embedding as the output matrix; the last norm has no large columns then. */
static inline model *evaluation_model_tied(uint32_t blocks, float outlier) {
    model *m = evaluation_model_blocks(blocks, NULL, outlier);
    add_weights(m, "output_norm.weight", 1, 256, 0);
    return m;
}

static inline model *evaluation_model(uint32_t blocks) { return evaluation_model_but(blocks, NULL, 1); }

/* Two layers; the second one's feed-forward sublayer goes through experts, two for each token. */
enum { EXPERT_MODEL_EXPERTS = 4 };
static inline model *expert_model(void) {
    model *m = evaluation_model(1);
    static const struct {
        const char *name;
        uint64_t columns, rows;
    } parts[] = {{"attn_norm", 256, 0},
                 {"attn_q", 256, 256},
                 {"attn_k", 256, 64},
                 {"attn_v", 256, 64},
                 {"attn_output", 256, 256},
                 {"ffn_norm", 256, 0},
                 {"ffn_gate_inp", 256, EXPERT_MODEL_EXPERTS}},
      experts[] = {{"ffn_gate_exps", 256, 128}, {"ffn_up_exps", 256, 128}, {"ffn_down_exps", 128, 256}};
    char name[64];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "blk.1.%s.weight", parts[i].name);
        add_weights(m, name, 5, parts[i].columns, parts[i].rows);
    }
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++) {
        uint64_t n = experts[i].columns * experts[i].rows * EXPERT_MODEL_EXPERTS;
        float *x = random_values(n, i);
        snprintf(name, sizeof name, "blk.1.%s.weight", experts[i].name);
        model_add(m, name, GGUF_F16, (uint64_t[4]){experts[i].columns, experts[i].rows, EXPERT_MODEL_EXPERTS},
                  x);
        free(x);
    }
    model_set_array(m, "llama.feed_forward_length", GGUF_U32, (uint32_t[]){512, 128}, 2);
    model_set_u32(m, "llama.block_count", 2);
    model_set_u32(m, "llama.expert_count", EXPERT_MODEL_EXPERTS);
    model_set_u32(m, "llama.expert_used_count", 2);
    return m;
}

/* Both as files: the plain one with so many layers. */
static inline void write_run_models(const char *plain, uint32_t blocks, const char *experts) {
    model *m = evaluation_model(blocks);
    model_save(m, plain);
    m = expert_model();
    model_save(m, experts);
}
