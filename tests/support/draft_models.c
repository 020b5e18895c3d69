#include "tests/support/draft_models.h"

static const draft_model draft_models[] = {
    {.name = "qwen35", .mixers = "daa"},
    {.name = "qwen35moe", .layers = 2, .mixers = "ada", .keys = "attention.recurrent_layers=[0,1,0]"},
    {.name = "qwen3next", .mixers = "baa"},
    {.name = "glm4moe"},
    {.name = "glm4moe-ends", .base = "glm4moe", .own_ends = true},
    {.name = "deepseek2", .keys = "attention.temperature_scale=0.0"},
    {.name = "deepseek32", .wide_indexer = true},
    {.name = "glm-dsa", .wide_indexer = true, .keys = "attention.indexer.types=[1,1]"},
    {.name = "deepseek4",
     .layers = 4,
     .keys = "attention.compress_ratios=[4,0,128,4,0];swiglu_clamp_exp=[0.4,0.0,0.3,0.5,0.4];"
             "swiglu_clamp_shexp=[0.5,0.3,0.0,0.4,0.6]"},
    {.name = "bailingmoe3",
     .mixers = "laa",
     .bare_head = true,
     .keys =
         "attention.head_count_kv=[0,1,1];swiglu_clamp_exp=[0.0,0.4,0.4];swiglu_clamp_shexp=[0.5,0.3,0.3]"},
    {.name = "cohere2moe", .layers = 3},
    {.name = "hy_v3"},
    {.name = "mimo2",
     .bare_head = true,
     .fused_qkv = true,
     .dense = 3,
     .keys = "expert_feed_forward_length=24"},
    {.name = "step35", .layers = 3},
    {.name = "step35-two", .base = "step35", .blocks = 2},
    {.name = "nemotron_h_moe",
     .layers = 3,
     .mixers = "n2aa",
     .has_both = true,
     .keys = "attention.head_count_kv=[0,0,2,2];feed_forward_length=[24,0,0,0]"},
};

const draft_model *draft_model_at(size_t i) {
    return i < sizeof draft_models / sizeof *draft_models ? &draft_models[i] : NULL;
}

const draft_model *draft_model_named(const char *name) {
    for (size_t i = 0; draft_model_at(i); i++)
        if (!strcmp(draft_model_at(i)->name, name)) return draft_model_at(i);
    return NULL;
}

model *draft_model_new(const draft_model *d, uint32_t type) {
    variant v = *variant_named(d->base ? d->base : d->name);
    uint32_t layers = d->layers ? d->layers : 2, blocks = d->blocks ? d->blocks : 1;
    uint64_t random = 7, width = v.width ? v.width : 32;
    char name[96], keys[64];
    v.layers = layers + blocks, v.extra_last = NULL;
    if (d->mixers) v.mixers = d->mixers;
    if (d->dense) v.dense = d->dense;
    if (d->wide_indexer) v.extra = NULL, v.extra_at = UINT32_MAX;
    v.fused_qkv = v.fused_qkv || d->fused_qkv;
    model *m = variant_model(&v, type, NULL);
    snprintf(keys, sizeof keys, "nextn_predict_layers=%u", blocks);
    variant_set(m, variant_arch(&v), keys);
    if (d->keys) variant_set(m, variant_arch(&v), d->keys);
    if (d->wide_indexer)
        variant_set(m, variant_arch(&v), "attention.indexer.head_count=12;attention.indexer.key_length=64");
#define ADD(rest, low, ...) \
    (snprintf(name, sizeof name, "blk.%u." rest ".weight", i), \
     variant_add(m, &random, name, low > 0 ? GGUF_F32 : type, (uint64_t[4]){__VA_ARGS__}, low, \
                 low > 0 ? 1.5F : .5F))
    for (uint32_t i = layers; i < layers + blocks; i++) {
        ADD("nextn.eh_proj", -.5F, 2 * width, width);
        if (!d->no_enorm) ADD("nextn.enorm", .5F, width);
        ADD("nextn.hnorm", .5F, width);
        if (d->bare_head)
            ADD("layer_output_norm", .5F, width);
        else
            ADD("nextn.shared_head_norm", .5F, width);
        if (d->has_both) {
            ADD("post_attention_norm", .5F, width), ADD("ffn_gate_inp", -1, width, 6);
            ADD("ffn_latent_down", -.5F, width, 20), ADD("ffn_latent_up", -.5F, 20, width);
            ADD("ffn_up_exps", -.5F, 20, 24, 6), ADD("ffn_down_exps", -.5F, 24, 20, 6);
            ADD("ffn_up_shexp", -.5F, width, 24), ADD("ffn_down_shexp", -.5F, 24, width);
            snprintf(name, sizeof name, "blk.%u.exp_probs_b.bias", i);
            variant_add(m, &random, name, GGUF_F32, (uint64_t[4]){6}, -.1F, .1F);
        }
        if (!d->own_ends) continue;
        ADD("nextn.embed_tokens", -.5F, width, VARIANT_VOCABULARY);
        ADD("nextn.shared_head_head", -.5F, width, VARIANT_VOCABULARY);
    }
#undef ADD
    return m;
}
