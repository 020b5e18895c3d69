#include "tests/support/draft_models.h"

enum { OF_TARGET = 32, OWN_TOKENS = 40, FF = 48 }; /* the target's width */

typedef struct target_draft {
    const char *name, *arch, *target;
    uint32_t layers, width, head, kv;
    const char *keys;
    const int32_t *target_layers;
    uint32_t n_target_layers;
    bool own_embedding, own_head; /* own_head: of fewer tokens, with d2t */
    bool no_v, post, sinks, out_scale, freqs;
    uint32_t markov, selector, taps, group; /* ranks; convolutions */
} target_draft;

static const int32_t eagle_layers[] = {2, 3, 5}, few_layers[] = {1, 3, 5}, two_layers[] = {4, 2};

/* clang-format off */
static const target_draft drafts[] = {
    {.name = "own", .arch = "eagle3", .target = "target", .layers = 1, .width = 24, .head = 6, .kv = 2, .own_embedding = true, .own_head = true,
     .keys = "target_hidden_size=32;norm_before_residual=b:true;norm_before_fc=b:true", .target_layers = eagle_layers, .n_target_layers = 3},
    {.name = "shared", .arch = "eagle3", .target = "target", .layers = 1, .width = 32, .head = 8, .kv = 2, .keys = "target_hidden_size=32",
     .target_layers = eagle_layers, .n_target_layers = 3},
    {.name = "dflash", .arch = "dflash", .target = "target", .layers = 2, .width = 32, .head = 12, .kv = 2, .target_layers = few_layers,
     .n_target_layers = 3, .keys = "block_size=8;attention.sliding_window=6;attention.sliding_window_pattern=[true,false]"},
    {.name = "dflash-causal", .arch = "dflash", .target = "target", .layers = 2, .width = 32, .head = 8, .kv = 1, .target_layers = two_layers,
     .n_target_layers = 2, .own_embedding = true, .keys = "block_size=3;attention.causal=b:true;embedding_scale=f:2.0;attention.scale=f:0.6;"
     "attention.value_scale=f:0.7;hidden_activation=s:gelu_pytorch_tanh;rope.freq_base=500.0"},
    {.name = "dflash2", .arch = "dflash", .target = "target", .layers = 2, .width = 32, .head = 8, .kv = 2, .target_layers = few_layers, .n_target_layers = 3,
     .selector = 5, .taps = 3, .group = 8, .keys = "block_size=8;conv_kernel_size=3;conv_group_size=8;selector_rank=5;selector_top_k=4;logit_scale=f:0.5;"
     "final_logit_softcapping=f:3.0"},
    {.name = "dspark", .arch = "dflash", .target = "target", .layers = 2, .width = 32, .head = 8, .kv = 2, .target_layers = two_layers, .n_target_layers = 2,
     .own_embedding = true, .own_head = true, .no_v = true, .post = true, .sinks = true, .out_scale = true, .freqs = true, .markov = 6,
     .keys = "block_size=4"},
    {.name = "dspark-bonus", .arch = "dflash", .target = "target", .layers = 1, .width = 32, .head = 8, .kv = 2, .target_layers = few_layers,
     .n_target_layers = 3, .markov = 9, .keys = "block_size=8;sample_from_anchor=b:false"},
    {.name = "assistant", .arch = "gemma4-assistant", .target = "gemma4-target", .layers = 3, .width = 24, .own_embedding = true, .post = true,
     .out_scale = true, .freqs = true,
     .keys = "embedding_length_out=32;nextn_predict_layers=3;attention.head_count_kv=[2,2,1];attention.key_length=12;attention.value_length=12;"
     "attention.key_length_swa=8;attention.value_length_swa=8;rope.dimension_count=12;rope.dimension_count_swa=8;rope.freq_base_swa=500.0;"
     "attention.sliding_window=6;attention.sliding_window_pattern=[true,true,false]"},
};
/* clang-format on */

const char *target_draft_at(size_t i) { return i < sizeof drafts / sizeof *drafts ? drafts[i].name : NULL; }

static const target_draft *draft_named(const char *name) {
    for (size_t i = 0; target_draft_at(i); i++)
        if (!strcmp(drafts[i].name, name)) return &drafts[i];
    fail_msg("no draft %s", name);
    return NULL;
}

const char *target_of_draft(const char *name) { return draft_named(name)->target; }

model *target_new(const char *name) {
    variant v = *variant_named(strcmp(name, "target") == 0 ? "llama" : "gemma4");
    v.layers = 6;
    return variant_model(&v, GGUF_F32, NULL);
}

typedef struct adding {
    model *m;
    uint64_t random;
} adding;

/* low above 0: a norm. */
#define ADD(name, low, ...) \
    variant_add(to->m, &to->random, name, GGUF_F32, (uint64_t[4]){__VA_ARGS__}, low, low > 0 ? 1.5F : .5F)
#define ADD_LAYER(rest, low, ...) \
    (snprintf(name, sizeof name, "blk.%u." rest, i), ADD(name, low, __VA_ARGS__))

static void add_attention(adding *to, const target_draft *d, uint32_t i) {
    char name[96];
    bool is_eagle = !strcmp(d->arch, "eagle3"), is_assistant = !d->head;
    uint32_t head = !is_assistant        ? d->head
                    : i + 1 == d->layers ? 12
                                         : 8,
             in = is_eagle ? 2 * d->width : d->width;
    ADD_LAYER("attn_norm.weight", .5F, d->width);
    ADD_LAYER("attn_q.weight", -.5F, in, 4 * head);
    if (is_eagle)
        ADD_LAYER("attn_norm_2.weight", .5F, d->width);
    else
        ADD_LAYER("attn_q_norm.weight", .5F, head);
    ADD_LAYER("attn_output.weight", -.5F, 4 * head, d->width);
    if (d->sinks) ADD_LAYER("attn_sinks.weight", -.5F, 4);
    if (is_assistant) return;
    ADD_LAYER("attn_k.weight", -.5F, in, d->kv * head);
    if (!d->no_v) ADD_LAYER("attn_v.weight", -.5F, in, d->kv * head);
    if (!is_eagle) ADD_LAYER("attn_k_norm.weight", .5F, head);
}

static void add_layer(adding *to, const target_draft *d, uint32_t i) {
    char name[96];
    add_attention(to, d, i);
    ADD_LAYER("ffn_norm.weight", .5F, d->width), ADD_LAYER("ffn_gate.weight", -.5F, d->width, FF);
    ADD_LAYER("ffn_up.weight", -.5F, d->width, FF), ADD_LAYER("ffn_down.weight", -.5F, FF, d->width);
    if (d->post) ADD_LAYER("post_attention_norm.weight", .5F, d->width);
    if (d->post) ADD_LAYER("post_ffw_norm.weight", .5F, d->width);
    if (d->out_scale) ADD_LAYER("layer_output_scale.weight", .5F, 1);
    if (!d->taps) return;
    ADD_LAYER("attn_conv_base", -.5F, d->width, d->taps, 2);
    ADD_LAYER("attn_conv_proj.weight", -.5F, d->width, 2 * d->taps * d->width / d->group);
    ADD_LAYER("ffn_conv_base", -.5F, d->width, d->taps, 2);
    ADD_LAYER("ffn_conv_proj.weight", -.5F, d->width, 2 * d->taps * d->width / d->group);
}

static void add_heads(adding *to, const target_draft *d) {
    uint32_t tokens = d->own_head ? OWN_TOKENS : VARIANT_VOCABULARY;
    if (d->markov)
        ADD("markov_w1.weight", -.5F, d->markov, VARIANT_VOCABULARY),
            ADD("markov_w2.weight", -.5F, d->markov, tokens);
    if (d->selector) {
        ADD("selector_predecessor.weight", -.5F, d->selector, VARIANT_VOCABULARY);
        ADD("selector_successor.weight", -.5F, d->selector, VARIANT_VOCABULARY);
        ADD("selector_hidden.weight", -.5F, d->width, d->selector);
    }
    if (!d->own_head) return;
    float ids[OWN_TOKENS]; /* every other token of the target, from the third on */
    for (size_t i = 0; i < OWN_TOKENS; i++) ids[i] = (float)(2 * i + 3);
    ADD("output.weight", -.5F, d->width, OWN_TOKENS);
    model_add(to->m, "d2t", GGUF_I64, (uint64_t[4]){OWN_TOKENS}, ids);
}

static void add_ends(adding *to, const target_draft *d) {
    bool is_eagle = !strcmp(d->arch, "eagle3");
    uint32_t states = d->n_target_layers * OF_TARGET;
    if (states) ADD("fc.weight", -.5F, states, d->width);
    if (states && (!is_eagle || d->own_head))
        ADD("enc.output_norm.weight", .5F, is_eagle ? states : d->width);
    if (!states)
        ADD("nextn.pre_projection.weight", -.5F, 2 * OF_TARGET, d->width),
            ADD("nextn.post_projection.weight", -.5F, d->width, OF_TARGET);
    ADD("output_norm.weight", .5F, d->width);
    if (d->own_embedding) ADD("token_embd.weight", -.5F, d->width, VARIANT_VOCABULARY);
    if (d->freqs) ADD("rope_freqs.weight", .5F, d->head ? d->head / 2 : 6);
}

model *target_draft_new(const char *name) {
    const target_draft *d = draft_named(name);
    float epsilon = 1e-5F;
    adding to = {model_new(d->arch, 1), d->own_head ? 11 : 5};
    model *m = to.m;
    char keys[256];
    snprintf(keys, sizeof keys,
             "block_count=%u;embedding_length=%u;attention.head_count=4;context_length=512;vocab_size=%d;"
             "feed_forward_length=%d",
             d->layers, d->width, VARIANT_VOCABULARY, FF);
    variant_set(m, d->arch, keys);
    if (d->head)
        snprintf(keys, sizeof keys,
                 "attention.head_count_kv=%u;attention.key_length=%u;attention.value_length=%u;"
                 "rope.dimension_count=%u",
                 d->kv, d->head, d->head, d->head),
            variant_set(m, d->arch, keys);
    variant_set(m, d->arch, d->keys);
    snprintf(keys, sizeof keys, "%s.attention.layer_norm_rms_epsilon", d->arch);
    model_set(m, keys, GGUF_FLOAT32, &epsilon, 4);
    snprintf(keys, sizeof keys, "%s.target_layers", d->arch);
    if (d->n_target_layers) model_set_array(m, keys, GGUF_INT32, d->target_layers, d->n_target_layers);
    if (!strcmp(d->arch, "dflash")) model_set_u32(m, "tokenizer.ggml.mask_token_id", 95);
    add_ends(&to, d), add_heads(&to, d);
    for (uint32_t i = 0; i < d->layers; i++) add_layer(&to, d, i);
    return m;
}
