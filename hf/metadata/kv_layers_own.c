/* Arrays with a value for each layer that single families have: Gemma 3n and 4, Step 3.5, MiMo 2. */
#include <math.h>
#include <string.h>

#include "hf/metadata/metadata.h"

/* ---- gemma ---- */

/* The value that a part p of normally distributed numbers is below. Far from the middle it is the fraction
 * that the model's library has for the inverse error function, so that the usual p of 0.95 has its bits. */
static float sparsity_quantile(float p) {
    float y = 2 * p - 1, a = fabsf(y);
    if (a >= 1) return y < 0 ? -INFINITY : INFINITY;
    if (a > 0.7F) {
        float z = sqrtf(-logf((1 - a) / 2));
        float above = ((1.641345311F * z + 3.429567803F) * z - 1.624906493F) * z - 1.970840454F;
        float below = (1.637067800F * z + 3.543889200F) * z + 1;
        return copysignf(above / below, y) * sqrtf(2);
    }
    double low = -1, high = 1; /* erf(1) is 0.84; halved until they are one 64-bit float's distance apart */
    for (int n = 0; n < 60; n++) {
        double middle = (low + high) / 2;
        *(erf(middle) < y ? &low : &high) = middle;
    }
    return (float)low * sqrtf(2);
}

KV_MAKE(layers_gemma3n_sparsity) {
    const char *name = "activation_sparsity_pattern";
    const json_t *list;
    if (!arch_layer_list(c, name, &list, e)) return false;
    if (!list) return hf_config_fail(c, e, "%s is missing: a share for each layer is expected", name);
    for (size_t l = 0; l < json_array_size(list); l++) {
        double share;
        if (!hf_value_float(c, json_array_get(list, l), name, &share, e)) return false;
        if (!(share >= 0 && share < 1))
            return hf_config_fail(c, e, "%s: %g, expected at least 0 and less than 1", name, share);
        if (!hf_metadata_add_f32(p, sparsity_quantile((float)share), e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_FLOAT32, e);
}

/* Layers that use the keys and values of others may have a feed-forward part of twice the width; layers with
 * full attention may have other heads of keys and values. */
KV_MAKE(layers_gemma4) {
    bool wide = false;
    uint32_t width, shared, window_heads, full_heads;
    const json_t *kinds;
    if (!hf_config_bool_or(c, "use_double_wide_mlp", false, &wide, e)) return false;
    if (wide && (!hf_config_u32(c, "intermediate_size", &width, e) ||
                 !hf_config_u32(c, "num_kv_shared_layers", &shared, e)))
        return false;
    for (uint64_t l = 0; wide && l < c->layers; l++)
        if (!arch_add_number(c, p, (uint64_t)width * (l + shared >= c->layers ? 2 : 1), e)) return false;
    if (wide && !hf_metadata_array(p, ".feed_forward_length", GGUF_INT32, e)) return false;
    if (!arch_value(c, "num_global_key_value_heads")) return true;
    if (!hf_config_u32(c, "num_global_key_value_heads", &full_heads, e) ||
        !hf_config_u32(c, "num_key_value_heads", &window_heads, e) ||
        !arch_layer_list(c, "layer_types", &kinds, e))
        return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!arch_add_number(c, p, arch_layer_is(kinds, l, "sliding_attention") ? window_heads : full_heads,
                             e))
            return false;
    return hf_metadata_array(p, ".attention.head_count_kv", GGUF_INT32, e);
}

/* ---- step ---- */

static bool step_set_heads(const hf_config *c, hf_metadata *p, const json_t *kinds, const char *key,
                           const char *full_name, const char *window_name, gq_error *e) {
    uint32_t full, window;
    if (!hf_config_u32(c, full_name, &full, e) || !hf_config_u32_or(c, window_name, full, &window, e))
        return false;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!arch_add_number(c, p, arch_layer_is(kinds, l, "sliding_attention") ? window : full, e))
            return false;
    return hf_metadata_array(p, key, GGUF_INT32, e);
}

/* Readers rotate half of a head in layers with full attention and all of it in the others. */
static bool step_check_rotation(const hf_config *c, const json_t *kinds, gq_error *e) {
    const char *name = "partial_rotary_factors";
    const json_t *list = arch_value(c, name);
    for (uint64_t l = 0; l < hf_config_blocks(c); l++) {
        double factor = 0.5, expected = arch_layer_is(kinds, l, "sliding_attention") ? 1 : 0.5;
        const json_t *v = json_array_get(list, l);
        if (v && !hf_value_float(c, v, name, &factor, e)) return false;
        if (factor != expected)
            return hf_config_fail(c, e, "%s: layer %llu has %g, expected %g", name, LLU(l), factor, expected);
    }
    return true;
}

/* Lists may end before the MTP layers, which have full attention then. */
KV_MAKE(layers_step) {
    const json_t *kinds = arch_value(c, "layer_types");
    if (!step_check_rotation(c, kinds, e) ||
        !step_set_heads(c, p, kinds, ".attention.head_count", "num_attention_heads",
                        "attention_other_setting.num_attention_heads", e) ||
        !step_set_heads(c, p, kinds, ".attention.head_count_kv", "num_attention_groups",
                        "attention_other_setting.num_attention_groups", e))
        return false;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!hf_metadata_add_bool(p, arch_layer_is(kinds, l, "sliding_attention"), e)) return false;
    return hf_metadata_array(p, ".attention.sliding_window_pattern", GGUF_BOOL, e);
}

KV_MAKE(layers_step_clamp) {
    const json_t *list = arch_value(c, i->names);
    if (!list) return true;
    if (!json_is_array(list)) return hf_config_fail(c, e, "%s: expected an array of numbers", i->names);
    if (json_array_size(list) < c->layers)
        return hf_config_fail(c, e, "%s has %zu values, expected one for each of %llu layers", i->names,
                              json_array_size(list), LLU(c->layers));
    for (uint64_t l = 0; l < hf_config_blocks(c); l++) {
        const json_t *v = json_array_get(list, l);
        double limit = 0;
        if (v && !json_is_null(v) && !hf_value_float(c, v, i->names, &limit, e)) return false;
        if (!hf_metadata_add_f32(p, (float)limit, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_FLOAT32, e);
}

/* ---- mimo ---- */

/* MTP layers have a window. */
KV_MAKE(layers_mimo) {
    const char *name = "hybrid_layer_pattern";
    const json_t *list;
    uint32_t full, window;
    if (!arch_layer_list(c, name, &list, e) || !hf_config_u32(c, "num_key_value_heads", &full, e) ||
        !hf_config_u32(c, "swa_num_key_value_heads", &window, e))
        return false;
    if (!list) return hf_config_fail(c, e, "%s is missing: an array of 0 and 1 is expected", name);
    for (int heads = 1; heads >= 0; heads--) {
        for (uint64_t l = 0; l < hf_config_blocks(c); l++) {
            uint32_t sliding = 1;
            if (l < c->layers && !hf_value_u32(c, json_array_get(list, l), name, &sliding, e)) return false;
            if (!arch_add_number(c, p, !heads ? sliding : sliding == 1 ? window : full, e)) return false;
        }
        if (!hf_metadata_array(p, heads ? ".attention.head_count_kv" : ".attention.sliding_window_pattern",
                               GGUF_INT32, e))
            return false;
    }
    return true;
}

/* ---- openelm ---- */

/* A layer's feed-forward part is a multiple of the width, rounded to a multiple of the divisor that is not less than
 * nine tenths of it. */
KV_MAKE(layers_openelm) {
    const char *name = "ffn_multipliers";
    const json_t *list;
    uint32_t width, divisor;
    if (!hf_config_u32(c, "model_dim", &width, e) || !hf_config_u32(c, "ffn_dim_divisor", &divisor, e) ||
        !arch_layer_list(c, name, &list, e))
        return false;
    if (divisor == 0) return hf_config_fail(c, e, "ffn_dim_divisor is 0");
    if (!list) return hf_config_fail(c, e, "%s is missing: a number for each layer is expected", name);
    for (uint64_t l = 0; l < c->layers; l++) {
        double times;
        if (!hf_value_float(c, json_array_get(list, l), name, &times, e)) return false;
        double wanted = times * width;
        if (!(wanted >= 0 && wanted <= INT32_MAX))
            return hf_config_fail(c, e, "%s: %g, expected a multiple of the width", name, times);
        uint64_t n = (uint64_t)(wanted + divisor / 2.0) / divisor * divisor;
        if (n < divisor) n = divisor;
        if ((double)n < 0.9 * wanted) n += divisor;
        if (!arch_add_number(c, p, n, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

/* ---- plamo 2 ---- */

/* Each mamba_step-th layer has attention, the others are recurrent. */
KV_MAKE(layers_plamo2) {
    static const char *const rows[][2] = {{".attention.head_count_kv", "num_key_value_heads"},
                                          {".attention.head_count", "num_attention_heads"}};
    uint32_t step, heads;
    bool is_used;
    if (!hf_config_u32_or(c, "mamba_step", 2, &step, e) ||
        !hf_config_bool_or(c, "mamba_enabled", true, &is_used, e))
        return false;
    if (step == 0) return hf_config_fail(c, e, "mamba_step is 0, expected at least 1");
    for (int r = 0; is_used && r < 2; r++) {
        if (!hf_config_u32_or(c, rows[r][1], r ? 32 : 4, &heads, e)) return false;
        for (uint64_t l = 0; l < c->layers; l++) {
            bool attends = c->layers <= step / 2 ? l == c->layers - 1 : l % step == step / 2;
            if (!arch_add_number(c, p, attends ? heads : 0, e)) return false;
        }
        if (!hf_metadata_array(p, rows[r][0], GGUF_INT32, e)) return false;
    }
    return true;
}

/* ---- bailingmoe3 ---- */

KV_MAKE(layers_bailing3) {
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!arch_add_number(c, p, hf_bailing3_is_full(c, l), e)) return false;
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

/* ---- deci ---- */

/* The width of a feed-forward part, by how many times the model's it is: two thirds of that, rounded up. */
static bool deci_width(const hf_config *c, const json_t *block, uint32_t width, uint32_t *to, gq_error *e) {
    enum { MULTIPLE = 256 };
    const json_t *times = json_object_get(json_object_get(block, "ffn"), "ffn_mult");
    double factor = 0;
    if (times && !json_is_null(times) && !hf_value_float(c, times, "ffn_mult", &factor, e)) return false;
    double wide = 2 * factor * width / 3;
    if (!(wide >= 0 && wide < INT32_MAX - MULTIPLE))
        return hf_config_fail(c, e, "ffn_mult of block_configs is %g, expected a factor of the width",
                              factor);
    *to = (uint32_t)wide / MULTIPLE * MULTIPLE + ((uint32_t)wide % MULTIPLE ? MULTIPLE : 0);
    return true;
}

KV_MAKE(layers_deci) {
    static const char *const keys[] = {".attention.head_count_kv", ".attention.head_count",
                                       ".feed_forward_length"};
    const json_t *blocks;
    hf_sizes s;
    if (!arch_layer_list(c, i->names, &blocks, e) || !hf_config_sizes(c, &s, e)) return false;
    for (int k = 0; k < 3; k++) {
        for (uint64_t l = 0; l < c->layers; l++) {
            const json_t *block = json_array_get(blocks, l), *attention = json_object_get(block, "attention");
            uint32_t n = (uint32_t)hf_deci_kv_heads(c, s.heads, s.kv_heads, l);
            bool attends = n || json_is_true(json_object_get(attention, "replace_with_linear"));
            if (k == 1) n = attends ? s.heads : 0;
            if (k == 2 && !deci_width(c, block, s.width, &n, e)) return false;
            if (!arch_add_number(c, p, n, e)) return false;
        }
        if (!hf_metadata_array(p, keys[k], GGUF_INT32, e)) return false;
    }
    return true;
}

/* ---- nemotron_h puzzle ---- */

/* Each block has an object of its own, which says what it is and, of experts, how wide they are and how many are used. */
KV_MAKE(layers_puzzle) {
    static const char *const rows[][2] = {{".feed_forward_length", "moe_intermediate_size"},
                                          {".expert_feed_forward_length", "moe_intermediate_size"},
                                          {".expert_used_count", "num_experts_per_tok"}};
    const json_t *blocks;
    hf_sizes s;
    if (!arch_layer_list(c, i->names, &blocks, e) || !hf_config_sizes(c, &s, e)) return false;
    if (!blocks) return hf_config_fail(c, e, "%s is missing: an object for each layer is expected", i->names);
    for (uint64_t l = 0; l < c->layers; l++) {
        bool attends = hf_json_is(json_object_get(json_array_get(blocks, l), "block_type"), "attention");
        if (!arch_add_number(c, p, attends ? s.kv_heads : 0, e)) return false;
    }
    if (!hf_metadata_array(p, ".attention.head_count_kv", GGUF_INT32, e)) return false;
    for (int r = 0; r < 3; r++) {
        for (uint64_t l = 0; l < c->layers; l++) {
            const json_t *v = json_object_get(json_array_get(blocks, l), rows[r][1]);
            uint32_t value = 0;
            if ((v && !json_is_null(v) && !hf_value_u32(c, v, rows[r][1], &value, e)) ||
                !arch_add_number(c, p, value, e))
                return false;
        }
        if (!hf_metadata_array(p, rows[r][0], GGUF_INT32, e)) return false;
    }
    return true;
}

/* ---- dots3note ---- */

/* MTP layers have a window. */
static bool dots3_is_local(const hf_config *c, const json_t *kinds, uint64_t layer) {
    return layer >= c->layers || arch_layer_is(kinds, layer, "sliding_attention");
}

static bool dots3_check(const hf_config *c, gq_error *e) {
    static const char *const texts[][2] = {{"topk_method", "noaux_tc"},
                                           {"scoring_func", "sigmoid"},
                                           {"attention_gate_type", "headwise"},
                                           {"swa_attention_gate_type", "headwise"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = hf_config_text(c, texts[i][0]);
        if (text && strcmp(text, texts[i][1]) != 0)
            return hf_config_fail(c, e, "%s is %s, expected %s", texts[i][0], text, texts[i][1]);
    }
    return arch_check_same(c, "swa_qk_rope_head_dim", "qk_rope_head_dim", e) &&
           arch_check_same(c, "swa_q_lora_rank", "q_lora_rank", e);
}

KV_MAKE(layers_dots3) {
    const json_t *kinds;
    uint32_t full, local;
    if (!dots3_check(c, e) || !arch_layer_list(c, "layer_types", &kinds, e) ||
        !hf_config_u32(c, "num_attention_heads", &full, e) ||
        !hf_config_u32(c, "swa_num_attention_heads", &local, e))
        return false;
    if (!kinds) return hf_config_fail(c, e, "layer_types is missing: a kind for each layer is expected");
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!arch_add_number(c, p, dots3_is_local(c, kinds, l) ? local : full, e)) return false;
    if (!hf_metadata_array(p, ".attention.head_count", GGUF_INT32, e)) return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!hf_metadata_add_bool(p, dots3_is_local(c, kinds, l), e)) return false;
    if (!hf_metadata_array(p, ".attention.sliding_window_pattern", GGUF_BOOL, e)) return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!hf_metadata_add_bool(p, !dots3_is_local(c, kinds, l), e)) return false;
    return hf_metadata_array(p, ".attention.indexer.types", GGUF_BOOL, e);
}

/* ---- qwen4exp ---- */

/* The config counts the layers that read n-grams from 1. */
KV_MAKE(layers_qwen4) {
    static const arch_item ngrams[] = {U32(".ple.ngram_size", "ngram_size"),
                                       U32(".ple.heads_per_ngram", "heads_per_ngram"),
                                       U32(".ple.conv_kernel", "ple_conv_kernel_size"),
                                       U32_IF(".ple.image_token_id", "image_token_id"), END};
    const json_t *kinds, *layers = arch_value(c, "ple_layer_ids"), *end = arch_value(c, "eos_token_id");
    uint32_t ratio, number;
    if (!arch_layer_list(c, "layer_types", &kinds, e) ||
        !hf_config_u32(c, "indexer_compress_ratio", &ratio, e))
        return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!arch_add_number(c, p, arch_layer_is(kinds, l, "full_attention") ? ratio : 0, e)) return false;
    if (!hf_metadata_array(p, ".attention.compress_ratios", GGUF_INT32, e)) return false;
    for (size_t n = 0; n < json_array_size(layers); n++) {
        if (!hf_value_u32(c, json_array_get(layers, n), "ple_layer_ids", &number, e)) return false;
        if (number == 0) return hf_config_fail(c, e, "ple_layer_ids has 0, expected numbers from 1 on");
        if (!arch_add_number(c, p, number - 1, e)) return false;
    }
    if (json_array_size(layers) == 0) return true;
    if (json_is_array(end)) end = json_array_get(end, json_array_size(end) - 1);
    return hf_metadata_array(p, ".ple.layers", GGUF_INT32, e) && arch_plain_set(ngrams, c, p, e) &&
           hf_value_u32(c, end, "eos_token_id", &number, e) &&
           hf_metadata_u32(p, ".ple.eos_token_id", number, e);
}
