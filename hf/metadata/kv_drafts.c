/* Metadata of draft models: which hidden states of their target they take in, and how. */
#include <math.h>

#include "hf/metadata/metadata.h"

enum { DRAFT_LAYERS_MOST = 64, EAGLE_LAYERS = 3 };

/* Adds a list of layers to the open array, each number `more` higher. States that go into a layer have its number. */
static bool draft_add_layers(const hf_config *c, const json_t *list, uint32_t more, const char *what,
                             hf_metadata *p, gq_error *e) {
    size_t n = json_array_size(list);
    if (n == 0 || n > DRAFT_LAYERS_MOST)
        return hf_config_fail(c, e, "%s: expected an array of 1 to %d layers of the target", what,
                              DRAFT_LAYERS_MOST);
    for (size_t i = 0; i < n; i++) {
        uint32_t layer;
        if (!hf_value_u32(c, json_array_get(list, i), what, &layer, e)) return false;
        if (c->target && layer + (uint64_t)more > c->target->layers)
            return hf_config_fail(c, e, "%s has layer %u, but the target, %s, has %llu", what, layer,
                                  c->target->folder->path, LLU(c->target->layers));
        if (!hf_metadata_add_i32(p, (int32_t)(layer + more), e)) return false;
    }
    return true;
}

/* Without a list a low, the middle and a high layer. */
static bool eagle_add_layers(const hf_config *c, hf_metadata *p, gq_error *e) {
    const char *name = "eagle_aux_hidden_state_layer_ids";
    const json_t *list = hf_config_get(c, name);
    int32_t n = (int32_t)c->target->layers;
    if (json_array_size(list) == EAGLE_LAYERS) return draft_add_layers(c, list, 0, name, p, e);
    if (list && !(json_is_array(list) && json_array_size(list) == 0))
        return hf_config_fail(c, e, "%s: expected an array of %d layers of the target", name, EAGLE_LAYERS);
    if (n < EAGLE_LAYERS + 1)
        return hf_config_fail(c->target, e, "%d layers, expected more in the target of a draft model", n);
    return hf_metadata_add_i32(p, 2, e) && hf_metadata_add_i32(p, n / 2, e) &&
           hf_metadata_add_i32(p, n - 3, e);
}

KV_MAKE(draft_eagle) {
    uint32_t width;
    if (!hf_config_u32(hf_config_get(c, "target_hidden_size") ? c : c->target,
                       hf_config_get(c, "target_hidden_size") ? "target_hidden_size" : "hidden_size", &width,
                       e))
        return false;
    return eagle_add_layers(c, p, e) && hf_metadata_array(p, i->key, GGUF_INT32, e) &&
           hf_metadata_u32(p, ".target_hidden_size", width, e);
}

KV_MAKE(draft_layers) {
    const char *outputs = "dflash_config.target_layer_ids|target_layer_ids|dspark_target_layer_ids",
               *inputs = "aux_hidden_state_layer_ids";
    bool by_output = arch_value(c, outputs) || !arch_value(c, inputs);
    const char *names = by_output ? outputs : inputs;
    return draft_add_layers(c, arch_value(c, names), by_output ? 1 : 0, names, p, e) &&
           hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(draft_window) {
    const json_t *kinds;
    uint32_t window = 0;
    bool uses, all;
    if (!hf_config_bool_or(c, "use_sliding_window", false, &uses, e) ||
        !hf_config_bool_or(c, "dflash_config.use_swa", false, &all, e) ||
        !hf_config_u32_or(c, "dflash_config.swa_window_size", 0, &window, e) ||
        (window == 0 && !hf_config_u32_or(c, "sliding_window", 0, &window, e)) ||
        !arch_layer_list(c, "layer_types", &kinds, e))
        return false;
    if (window == 0 || !(i->value != 0 ? kinds != NULL : uses || all)) return true;
    size_t n = all ? c->layers : json_array_size(kinds);
    for (size_t l = 0; l < n; l++)
        if (!hf_metadata_add_bool(p, all || arch_layer_is(kinds, l, "sliding_attention"), e)) return false;
    return hf_metadata_array(p, ".attention.sliding_window_pattern", GGUF_BOOL, e) &&
           hf_metadata_u32(p, ".attention.sliding_window", window, e);
}

KV_MAKE(draft_causal) {
    const char *names = arch_value(c, "is_causal") ? "is_causal" : "dflash_config.causal";
    bool causal;
    if (!arch_value(c, names)) return true;
    return hf_config_bool(c, names, &causal, e) && hf_metadata_bool(p, i->key, causal, e);
}

/* A draft model rotates by time alone. */
KV_MAKE(draft_sections) {
    hf_sizes s;
    if (!c->target || !json_object_get(c->target->rope, "mrope_section")) return true;
    if (!hf_config_sizes(c, &s, e)) return false;
    for (uint32_t k = 0; k < 4; k++)
        if (!hf_metadata_add_i32(p, k == 0 ? (int32_t)(s.head_width / 2) : 0, e)) return false;
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(draft_anchor) {
    bool samples =
        !hf_config_has(c, "transformer_layer_config") && !hf_config_has(c, "aux_hidden_state_layer_ids");
    return hf_config_bool_or(c, "sample_from_anchor", samples, &samples, e) &&
           hf_metadata_bool(p, i->key, samples, e);
}

KV_MAKE(draft_ratios) {
    for (uint64_t l = 0; l < c->layers; l++)
        if (!hf_metadata_add_i32(p, 0, e)) return false;
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

/* Values that readers of these draft models assume; and the scale of the embedding, which is the target's. */
KV_MAKE(draft_gemma4) {
    uint32_t width, tokens = 0, own = 0;
    double cap;
    const json_t *kinds;
    if (!arch_layer_list(c, "layer_types", &kinds, e) || !hf_config_u32(c, "hidden_size", &width, e) ||
        !hf_config_u32(c, "vocab_size", &tokens, e) || !hf_config_u32_or(c, "draft_vocab_size", 0, &own, e) ||
        !hf_config_float_or(c, "final_logit_softcapping", 0, &cap, e))
        return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!arch_layer_is(kinds, l, "full_attention"))
            return hf_config_fail(c, e,
                                  "layer_types: expected full_attention in all layers of such a draft model");
    if (cap != 0)
        return hf_config_fail(c, e, "final_logit_softcapping is %g, expected none in such a draft model",
                              cap);
    if (own && own != tokens)
        return hf_config_fail(c, e, "draft_vocab_size is %u, expected %u, the whole vocabulary", own, tokens);
    return hf_metadata_f32(p, i->key, (float)sqrt(width), e);
}
