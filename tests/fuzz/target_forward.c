/* A model from a file, set up to be run, and run where that works: every number and shape in it is the
 * file's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/block.h"
#include "forward/graph/forward.h"
#include "forward/graph/layer.h"
#include "gguf/gguf.h"
#include "tests/fuzz/fuzz.h"

enum { CONTEXT = 7, WINDOWS = 2, TOKENS = CONTEXT * WINDOWS, TILE = 8 };
#define MOST_BYTES ((uint64_t)16 << 20) /* what a batch of a model may take here */

static forward_answer check_inputs(void *data, const forward_inputs *in, gq_error *e) {
    (void)data, (void)e;
    PROMISE(in->n_weights >= 1 && in->n_weights <= FORWARD_MOST_WEIGHTS, "%zu weights", in->n_weights);
    for (size_t i = 0; i < in->n_weights; i++)
        PROMISE(in->weights[i]->ne[0] == in->features && in->weights[i]->ne[2] == in->matrices, "%s",
                in->weights[i]->name);
    PROMISE(in->matrix < in->matrices && (in->late || in->tokens <= TOKENS) && in->tokens <= in->stride,
            "%zu", in->matrix);
    for (size_t r = 0; r < in->features; r++)
        for (size_t t = 0; t < in->tokens; t++)
            PROMISE(isfinite(in->x[r * in->stride + t]), "%s", in->weights[0]->name);
    for (size_t t = 0; in->token && t < in->tokens; t++)
        PROMISE(in->token[t] < TOKENS && (t == 0 || in->token[t] >= in->token[t - 1] + !in->late), "%u",
                in->token[t]);
    return FORWARD_ON;
}

static bool run(const forward_model *m, forward_layer *l, forward_tile *t, forward_batch *b, float *x,
                gq_error *e) {
    static const forward_observer observer = {.on_inputs = check_inputs};
    const forward_sizes *s = forward_model_sizes(m);
    size_t stride = forward_stride(TOKENS);
    uint32_t ids[TOKENS];
    float z[TILE * 16];
    for (size_t i = 0; i < TOKENS; i++) ids[i] = (uint32_t)(i * 7 % s->vocabulary);
    bool ok = forward_embed(b, NULL, ids, x, stride, e);
    for (size_t i = 0; ok && i < s->layers; i++)
        ok = forward_layer_read(l, i, e) &&
             (forward_model_splits(m) ? forward_block(b, l, FORWARD_ATTENTION, x, stride, &observer, e) &&
                                            forward_block(b, l, FORWARD_FFN, x, stride, &observer, e)
                                      : forward_block(b, l, FORWARD_WHOLE, x, stride, &observer, e));
    return ok && forward_final(b, x, stride, x, stride, &observer, e) &&
           forward_tile_read(t, 0, s->vocabulary < TILE ? s->vocabulary : TILE, e) &&
           forward_logits(b, t, x, stride, TOKENS, z, stride, e);
}

static void try_model(const forward_model *m) {
    const forward_sizes *s = forward_model_sizes(m);
    gq_error e = {0};
    PROMISE(s->layers >= 1 && s->width >= 1 && s->vocabulary >= 1, "%zu layers", s->layers);
    if (forward_batch_bytes(m, CONTEXT, WINDOWS, 1) > MOST_BYTES || s->layer_bytes > MOST_BYTES) return;
    forward_layer *l = forward_layer_new(m, 0, &e);
    forward_tile *t = forward_tile_new(m, TILE, &e);
    forward_batch *b = forward_batch_new(m, CONTEXT, WINDOWS, NULL, &e);
    float *x = forward_activations(forward_model_features(m, CONTEXT), forward_stride(TOKENS), &e);
    if (!l || !t || !b || !x || !run(m, l, t, b, x, &e)) fuzz_check_error(&e);
    free(x);
    forward_batch_free(b), forward_tile_free(t), forward_layer_free(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    uint8_t *file = fuzz_copy(bytes, n);
    model_source g;
    gq_error e = {0};
    if (gguf_model_memory(&g, "fuzz", file, n, &e)) {
        forward_model *m = forward_model_new(&g, &e);
        if (m)
            try_model(m);
        else
            fuzz_check_error(&e);
        forward_model_free(m);
        model_close(&g);
    } else {
        fuzz_check_error(&e);
    }
    free(file);
    return 0;
}

/* ---- seeds ---- */

/* One layer of 4 features, 2 heads of 2 and 8 tokens. */
typedef struct seed {
    const char *arch;
    const char *const *tensors; /* "name a b c": shapes; of F32 */
    bool experts;
} seed;

static void add_tensor(gguf_header *h, const char *text) {
    char name[64];
    unsigned long long ne[4] = {1, 1, 1, 1};
    uint32_t n = (uint32_t)sscanf(text, "%63s %llu %llu %llu", name, &ne[0], &ne[1], &ne[2]) - 1;
    gguf_header_add_shaped(h, name, n, (uint64_t[4]){ne[0], ne[1], ne[2], 1}, tensor_type_of(GGUF_F32), NULL);
}

static void set_float(gguf_header *h, const char *key, float value) {
    gguf_header_set(h, key, GGUF_FLOAT32, &value, 4, NULL);
}

static void write_seed(const char *folder, const seed *s) {
    static const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"embedding_length", 4},
                   {"context_length", 64},
                   {"feed_forward_length", 6},
                   {"attention.head_count", 2},
                   {"block_count", 1},
                   {"attention.sliding_window", 3},
                   {"rope.dimension_count", 2},
                   {"attention.kv_lora_rank", 3},
                   {"attention.key_length_mla", 4},
                   {"attention.value_length_mla", 2},
                   {"expert_count", 3},
                   {"expert_used_count", 2}};
    size_t n = sizeof numbers / sizeof *numbers - (s->experts ? 0 : 2);
    gguf_header *h = gguf_header_new(NULL);
    const uint8_t *head;
    uint64_t size, data;
    char key[96];
    gguf_header_set_string(h, "general.architecture", s->arch, NULL);
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s.%s", s->arch, numbers[i].name);
        gguf_header_set_u32(h, key, numbers[i].value, NULL);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", s->arch), set_float(h, key, 1e-5f);
    snprintf(key, sizeof key, "%s.attention.layer_norm_epsilon", s->arch), set_float(h, key, 1e-5f);
    snprintf(key, sizeof key, "%s.logit_scale", s->arch), set_float(h, key, 0.5f);
    for (size_t i = 0; s->tensors[i]; i++) add_tensor(h, s->tensors[i]);
    gguf_header_finish(h, &head, &size, &data, NULL);
    uint8_t *both = calloc(1, size + data);
    memcpy(both, head, size);
    for (uint64_t i = 0; i < data / 4; i++) {
        float x = (float)(i * 37 % 101) / 50 - 1;
        memcpy(both + size + 4 * i, &x, 4);
    }
    fuzz_seed(folder, s->arch, both, size + data);
    free(both);
    gguf_header_free(h);
}

#define ENDS "token_embd.weight 4 8", "output.weight 4 8", "output_norm.weight 4"
#define TIED "token_embd.weight 4 8", "output_norm.weight 4"
#define HEADS \
    "blk.0.attn_q.weight 4 4", "blk.0.attn_k.weight 4 4", "blk.0.attn_v.weight 4 4", \
        "blk.0.attn_output.weight 4 4"
#define NORMS "blk.0.attn_norm.weight 4", "blk.0.ffn_norm.weight 4"
#define AFTER "blk.0.post_attention_norm.weight 4", "blk.0.post_ffw_norm.weight 4"
#define FFN "blk.0.ffn_gate.weight 4 6", "blk.0.ffn_up.weight 4 6", "blk.0.ffn_down.weight 6 4"
#define EXPERTS \
    "blk.0.ffn_gate_inp.weight 4 3", "blk.0.ffn_gate_exps.weight 4 6 3", "blk.0.ffn_up_exps.weight 4 6 3", \
        "blk.0.ffn_down_exps.weight 6 4 3"

void fuzz_seeds(const char *folder) {
    static const char *const llama[] = {ENDS, HEADS, NORMS, EXPERTS, "rope_freqs.weight 1", NULL};
    static const char *const gemma2[] = {TIED, HEADS, NORMS, AFTER, FFN, NULL};
    static const char *const cohere2[] = {TIED, HEADS, "blk.0.attn_norm.weight 4", FFN, NULL};
    static const char *const phi3[] = {ENDS,  "blk.0.attn_qkv.weight 4 12", "blk.0.attn_output.weight 4 4",
                                       NORMS, "blk.0.ffn_up.weight 4 12",   "blk.0.ffn_down.weight 6 4",
                                       NULL};
    static const char *const deepseek2[] = {TIED,
                                            NORMS,
                                            EXPERTS,
                                            "blk.0.attn_q.weight 4 8",
                                            "blk.0.attn_kv_a_mqa.weight 4 5",
                                            "blk.0.attn_kv_a_norm.weight 3",
                                            "blk.0.attn_k_b.weight 2 3 2",
                                            "blk.0.attn_v_b.weight 3 2 2",
                                            "blk.0.attn_output.weight 4 4",
                                            NULL};
    static const char *const deci[] = {ENDS,  FFN, "blk.0.attn_norm.weight 4", "blk.0.ffn_norm.weight 4",
                                       HEADS, NULL};
    static const char *const bitnet[] = {
        TIED, NORMS, HEADS, FFN, "blk.0.attn_sub_norm.weight 4", "blk.0.ffn_sub_norm.weight 6", NULL};
    static const char *const plamo[] = {ENDS, HEADS, "blk.0.attn_norm.weight 4", FFN, NULL};
    static const seed seeds[] = {{"deci", deci, false},       {"bitnet", bitnet, false},
                                 {"plamo", plamo, false},     {"deepseek2", deepseek2, true},
                                 {"llama", llama, true},      {"gemma2", gemma2, false},
                                 {"cohere2", cohere2, false}, {"phi3", phi3, false}};
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) write_seed(folder, &seeds[i]);
}
