/* Metadata of single architectures that no kind of item describes, and checks of what readers take for granted.
 */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hf/metadata/metadata.h"

/* ---- scales ---- */

/* Computed in 64 bits, as llama.cpp's converter does. */
KV_MAKE(own_minicpm) {
    double embedding, depth, base;
    uint32_t width;
    if (!hf_config_float(c, "scale_emb", &embedding, e) || !hf_config_float(c, "scale_depth", &depth, e) ||
        !hf_config_float(c, "dim_model_base", &base, e) || !hf_config_u32(c, NAMES_WIDTH, &width, e))
        return false;
    if (base == 0 || c->layers == 0)
        return hf_config_fail(c, e, "dim_model_base or the number of layers is 0");
    return hf_metadata_f32(p, ".embedding_scale", (float)embedding, e) &&
           hf_metadata_f32(p, ".residual_scale", (float)(depth / sqrt((double)c->layers)), e) &&
           hf_metadata_f32(p, ".logit_scale", (float)(width / base), e);
}

KV_MAKE(own_mpt_alibi) {
    bool used = false;
    double most = 0;
    return hf_config_bool_or(c, "attn_config.alibi", false, &used, e) &&
           (!used || hf_config_float(c, "attn_config.alibi_bias_max", &most, e)) &&
           hf_metadata_f32(p, i->key, (float)most, e);
}

/* The length that nomic's encoders were trained for, which n_positions of the first ones exceeds. */
KV_MAKE(own_nomic_length) {
    static const struct { uint32_t positions, trained; } known[] = {{8192, 2048}, {2048, 512}};
    uint32_t positions, most;
    if (!hf_config_u32(c, "n_positions", &positions, e) ||
        !hf_config_u32_or(c, "max_trained_positions", 2048, &most, e))
        return false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (most == 2048 && positions == known[k].positions)
            return hf_metadata_u32(p, i->key, known[k].trained, e);
    return hf_config_fail(c, e,
                          "n_positions is %u and max_trained_positions %u, expected 8192 or 2048, and 2048",
                          positions, most);
}

/* Positions of RoBERTa's texts begin behind the number of the token that fills them up. */
KV_MAKE(own_roberta_length) {
    uint32_t most, pad;
    if (!hf_config_get(c, "pad_token_id") || !hf_config_get(c, "max_position_embeddings")) return true;
    if (!hf_config_u32(c, "max_position_embeddings", &most, e) || !hf_config_u32(c, "pad_token_id", &pad, e))
        return false;
    if (most <= pad || most - pad == 1)
        return hf_config_fail(c, e, "max_position_embeddings is %u, expected more than pad_token_id + 1: %u",
                              most, pad + 1);
    return hf_metadata_u32(p, i->key, most - pad - 1, e);
}

KV_MAKE(own_two_thirds) {
    uint32_t whole;
    return hf_config_u32(c, i->names, &whole, e) && arch_set_u64(i, c, p, 2 * (uint64_t)whole / 3, e);
}

/* ---- experts ---- */

/* Without experts all layers are dense. */
KV_MAKE(own_deepseek_dense) {
    uint32_t experts, dense;
    return hf_config_u32_or(c, NAMES_EXPERTS, 0, &experts, e) &&
           hf_config_u32_or(c, "first_k_dense_replace", experts ? 0 : (uint32_t)c->layers, &dense, e) &&
           hf_metadata_u32(p, i->key, dense, e);
}

KV_MAKE(own_deepseek_norm) {
    return !json_is_true(arch_value(c, "norm_topk_prob")) || hf_metadata_bool(p, i->key, true, e);
}

static bool hy4_is_sparse(const json_t *list, size_t layer) {
    return arch_layer_is(list, layer, "sparse_attention") ||
           arch_layer_is(list, layer, "deepseek_sparse_attention");
}

/* Layers that choose keys: as indexer_types has them, or in older configs layer_types. Without either no layer
 * does, and the indexer's sizes are left out. */
KV_MAKE(own_hy4_indexer) {
    static const arch_item sizes[] = {INDEXER_SIZES, END};
    const json_t *types = arch_value(c, "indexer_types");
    const char *name = types ? "indexer_types" : "layer_types";
    const json_t *list;
    bool is_sparse = types;
    if (!arch_layer_list(c, name, &list, e)) return false;
    for (size_t l = 0; l < json_array_size(list); l++) is_sparse = is_sparse || hy4_is_sparse(list, l);
    if (!is_sparse) return true;
    for (size_t l = 0; l < json_array_size(list); l++) {
        bool chooses = types ? arch_layer_is(list, l, "full") : hy4_is_sparse(list, l);
        if (types && !chooses && !arch_layer_is(list, l, "shared"))
            return hf_config_fail(c, e, "indexer_types: expected \"full\" or \"shared\"");
        if (!hf_metadata_add_bool(p, chooses, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_BOOL, e) && arch_plain_set(sizes, c, p, e);
}

KV_MAKE(own_smallthinker) {
    static const arch_item window[] = {U32(".attention.sliding_window", "sliding_window_size"), END};
    const json_t *layout;
    bool softmax, sliding = false;
    if (!hf_config_bool_or(c, "moe_primary_router_apply_softmax", false, &softmax, e) ||
        !hf_metadata_u32(p, ".expert_gating_func", softmax ? 1 : 2, e) ||
        !arch_layer_list(c, "sliding_window_layout", &layout, e))
        return false;
    for (size_t l = 0; l < json_array_size(layout); l++)
        sliding = sliding || json_number_value(json_array_get(layout, l)) != 0;
    return !sliding || arch_plain_set(window, c, p, e);
}

/* The first layer with experts, of a list such as "3,4,5". */
KV_MAKE(own_step_dense) {
    const char *text = hf_config_text(c, "moe_layers_enum");
    unsigned long first = ULONG_MAX;
    for (char *end; text && *text; text = *end == ',' ? end + 1 : end) {
        unsigned long layer = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || layer > UINT32_MAX)
            return hf_config_fail(c, e, "moe_layers_enum: expected layers' numbers with commas between");
        if (layer < first) first = layer;
    }
    return hf_metadata_u32(p, ".leading_dense_block_count", first == ULONG_MAX ? 0 : (uint32_t)first, e);
}

/* ---- widths ---- */

KV_MAKE(own_lfm2_width) {
    uint32_t given, multiple;
    bool adjusted;
    double factor;
    if (!hf_config_u32(c, "block_ff_dim|intermediate_size", &given, e) ||
        !hf_config_bool(c, "block_auto_adjust_ff_dim", &adjusted, e))
        return false;
    uint64_t width = given;
    if (adjusted) {
        if (!hf_config_float_or(c, "block_ffn_dim_multiplier", 1, &factor, e) ||
            !hf_config_u32(c, "block_multiple_of", &multiple, e))
            return false;
        width = 2 * width / 3;
        if (!(factor > 0 && factor * (double)width < 4294967296.0) || multiple == 0)
            return hf_config_fail(
                c, e, "block_ffn_dim_multiplier %g and block_multiple_of %u give no feed-forward width",
                factor, multiple);
        width = (uint64_t)(factor * (double)width);
        width = (width + multiple - 1) / multiple * multiple;
    }
    return arch_set_u64(i, c, p, width, e);
}

KV_MAKE(own_time_step_rank) {
    uint32_t width;
    if (!hf_config_u32(c, NAMES_WIDTH, &width, e)) return false;
    uint32_t rank_missing = width / 16 + (width % 16 != 0);
    const arch_item rank[] = {U32_OR_NOT_ZERO(i->key, i->names, rank_missing), END};
    return arch_plain_set(rank, c, p, e);
}

/* Reads the width inside a Mamba block, which must be `expand` times the model's. */
static bool mamba_read_inner(const hf_config *c, uint32_t expand, uint32_t *inner, gq_error *e) {
    arch_item given = {.need = OR_NOT_ZERO};
    uint32_t width;
    bool missing;
    if (!hf_config_u32(c, NAMES_WIDTH, &width, e)) return false;
    given.value = (double)((uint64_t)expand * width);
    if (given.value > UINT32_MAX)
        return hf_config_fail(c, e, "%u times a width of %u is too large", expand, width);
    return arch_u32(&given, c, "intermediate_size|d_inner", inner, &missing, e) &&
           (*inner == given.value ||
            hf_config_fail(c, e, "the width inside is %u, expected %u times %u", *inner, expand, width));
}

KV_MAKE(own_mamba) {
    uint32_t inner = 0;
    return mamba_read_inner(c, 2, &inner, e) && hf_metadata_u32(p, ".ssm.inner_size", inner, e) &&
           hf_metadata_bool(p, ".ssm.dt_b_c_rms", hf_json_is(hf_config_get(c, "model_type"), "falcon_mamba"),
                            e);
}

KV_MAKE(own_mamba2) {
    arch_item two = {.need = OR_NOT_ZERO, .value = 2}, head_given = {.need = OR_NOT_ZERO, .value = 64};
    uint32_t expand = 0, inner = 0, head = 0;
    bool missing;
    return arch_u32(&two, c, "expand", &expand, &missing, e) && mamba_read_inner(c, expand, &inner, e) &&
           arch_u32(&head_given, c, "mamba_d_head|head_dim", &head, &missing, e) &&
           hf_metadata_u32(p, ".ssm.inner_size", inner, e) &&
           hf_metadata_u32(p, ".ssm.time_step_rank", inner / head, e);
}

/* ---- rwkv ---- */

/* rwkv6's sizes go by the width alone; those of rwkv6qwen2 may be told, and its limit includes wider models. */
KV_MAKE(own_rwkv6) {
    enum { WIDE = 4096 };
    uint32_t width;
    if (!hf_config_u32(c, "hidden_size", &width, e)) return false;
    bool wide = strcmp(c->arch, "rwkv6") == 0 ? width == WIDE : width >= WIDE;
    return hf_metadata_u32(p, ".time_mix_extra_dim", wide ? 64 : 32, e) &&
           hf_metadata_u32(p, ".time_decay_extra_dim", wide ? 128 : 64, e) &&
           hf_metadata_u32(p, ".feed_forward_length", (uint32_t)(width * 3.5 / 32) * 32, e);
}

/* A multiple of 32 by a power of the width: gates have another one than the rest. */
KV_MAKE(own_low_rank) {
    const double gate = 0.6;
    uint32_t width, rank;
    if (!hf_config_u32(c, "hidden_size", &width, e)) return false;
    double parts = rint(pow(width, i->value == gate ? 0.8 : 0.5) * i->value / 32);
    return hf_config_u32_or(c, i->names, 32 * (uint32_t)fmax(1, parts), &rank, e) &&
           hf_metadata_u32(p, i->key, rank, e);
}

KV_MAKE(own_arwkv7) {
    bool gate;
    uint32_t version;
    if (!hf_config_bool(c, "wkv_has_gate", &gate, e) || !hf_config_u32(c, "wkv_version", &version, e))
        return false;
    if (version != 7) return hf_config_fail(c, e, "wkv_version is %u, expected 7", version);
    return hf_metadata_u32(p, i->key, gate ? 128 : 0, e);
}

KV_MAKE(own_hrm) {
    enum { MOST_CYCLES = 16 };
    uint32_t upper, lower, each = (uint32_t)c->layers / 2;
    if (!hf_config_u32(c, "H_cycles", &upper, e) || !hf_config_u32(c, "L_cycles", &lower, e)) return false;
    if (upper < 1 || upper > MOST_CYCLES || lower < 1 || lower > MOST_CYCLES)
        return hf_config_fail(c, e, "H_cycles is %u and L_cycles %u, expected 1 to %d", upper, lower,
                              MOST_CYCLES);
    return hf_metadata_u32(p, ".block_count", each * upper * (lower + 1), e) &&
           hf_metadata_u32(p, ".hrm.layers_per_stack", each, e) &&
           hf_metadata_u32(p, ".hrm.h_cycles", upper, e) && hf_metadata_u32(p, ".hrm.l_cycles", lower, e);
}

KV_MAKE(own_minimax_01) {
    static const char *const kinds[] = {"full_attention", "linear_attention", "mlp"};
    enum { FULL_EVERY = 8 };
    const json_t *types;
    double first = 0, alpha, beta;
    (void)p;
    if (!arch_layer_list(c, "attn_type_list", &types, e)) return false;
    for (size_t l = 0; l < json_array_size(types); l++)
        if (json_integer_value(json_array_get(types, l)) != ((l + 1) % FULL_EVERY == 0))
            return hf_config_fail(c, e,
                                  "attn_type_list: readers expect full attention in each eighth layer alone, "
                                  "and layer %zu is otherwise",
                                  l);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char names[2][48];
        snprintf(names[0], sizeof names[0], "layernorm_%s_alpha", kinds[k]);
        snprintf(names[1], sizeof names[1], "layernorm_%s_beta", kinds[k]);
        if (!hf_config_float(c, names[0], &alpha, e) || !hf_config_float(c, names[1], &beta, e)) return false;
        if (k == 0) first = alpha;
        if (alpha != first || beta != 1)
            return hf_config_fail(c, e, "%s is %g and %s %g, expected %g and 1", names[0], alpha, names[1],
                                  beta, first);
    }
    return true;
}

/* ---- windows ---- */

KV_MAKE(own_gemma3_window) {
    static const arch_item window[] = {U32(".attention.sliding_window", "sliding_window"), END};
    if (arch_value(c, "attn_logit_softcapping"))
        return hf_config_fail(c, e,
                              "attn_logit_softcapping: expected none, this architecture has no such cap");
    return json_integer_value(arch_value(c, "sliding_window_pattern")) == 1 ||
           arch_plain_set(window, c, p, e);
}

/* Layers attend to chunks unless all of them are listed as those that do not. */
KV_MAKE(own_llama4_window) {
    const json_t *kinds;
    if (!arch_layer_list(c, "layer_types", &kinds, e)) return false;
    for (size_t l = 0; l < json_array_size(kinds); l++)
        if (!arch_layer_is(kinds, l, "full_attention")) return true;
    return !kinds || hf_metadata_u32(p, i->key, 0, e);
}

/* ---- what readers take for granted ---- */

KV_MAKE(own_gemma_altup) {
    static const arch_item rows[] = {U32(".altup.active_idx", "altup_active_idx"),
                                     U32(".altup.num_inputs", "altup_num_inputs"), END};
    uint32_t inputs;
    if (!arch_plain_set(rows, c, p, e) || !hf_config_u32(c, "altup_num_inputs", &inputs, e)) return false;
    return inputs == 4 || hf_config_fail(c, e, "altup_num_inputs is %u, expected 4", inputs);
}

static bool own_check_text(const hf_config *c, const char *name, const char *expected, gq_error *e) {
    const char *text = hf_config_text(c, name);
    return (text && strcmp(text, expected) == 0) ||
           hf_config_fail(c, e, "%s is %s, expected %s", name, text ? text : "missing", expected);
}

KV_MAKE(own_kimi_checks) {
    (void)p;
    return own_check_text(c, "hidden_act", "situ", e) &&
           own_check_text(c, "moe_router_activation_func", "sigmoid", e) &&
           (json_is_true(arch_value(c, "mla_use_nope")) ||
            hf_config_fail(c, e, "mla_use_nope: expected true"));
}

/* ---- classifiers ---- */

KV_MAKE(own_labels) {
    const json_t *labels = hf_classifier_labels(c);
    for (size_t k = 0; k < json_object_size(labels); k++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", k);
        const json_t *label = json_object_get(labels, number);
        if (!json_is_string(label))
            return hf_config_fail(
                c, e, "id2label: %s is not a string, expected one for each number from 0 on", number);
        if (!hf_metadata_add_string(p, json_string_value(label), json_string_length(label), e)) return false;
    }
    return !labels || hf_metadata_array(p, i->key, GGUF_STRING, e);
}

KV_MAKE(own_mimo_checks) {
    (void)p;
    return arch_check_same(c, "swa_head_dim", "head_dim", e) &&
           arch_check_same(c, "swa_num_attention_heads", "num_attention_heads", e) &&
           arch_check_same(c, "swa_v_head_dim", "v_head_dim", e) &&
           own_check_text(c, "topk_method", "noaux_tc", e);
}

/* A third of eight widths, rounded up to a multiple of 256. */
KV_MAKE(own_refact_width) {
    uint32_t width;
    return hf_config_u32(c, "n_embd", &width, e) &&
           arch_set_u64(i, c, p, ((uint64_t)width * 8 / 3 + 255) / 256 * 256, e);
}

KV_MAKE(own_grok_scale) {
    double scale;
    hf_sizes s;
    if (!hf_config_sizes(c, &s, e)) return false;
    return hf_config_float_or(c, i->names, s.head_width ? pow(s.head_width, -0.5) : 1, &scale, e) &&
           hf_metadata_f32(p, i->key, (float)scale, e);
}

/* ---- laguna ---- */

static bool laguna_is_element(const json_t *v) {
    const char *text = json_string_value(v);
    return text && (strcmp(text, "per-element") == 0 || strcmp(text, "per_element") == 0);
}

static bool laguna_is_head(const json_t *v) {
    const char *text = json_string_value(v);
    return json_is_true(v) || (text && (strcmp(text, "per-head") == 0 || strcmp(text, "per_head") == 0));
}

/* The rotated values of a head in layers with a window. Programs that run the folder read `gating` alone, so
 * that a list that says otherwise is refused. */
KV_MAKE(own_laguna) {
    const json_t *gating = arch_value(c, "gating"), *kinds = arch_value(c, "gating_types"),
                 *local = json_object_get(c->rope, "sliding_attention");
    double part = 1;
    hf_sizes s;
    if (!laguna_is_element(gating) && !laguna_is_head(gating))
        return hf_config_fail(c, e, "gating: expected true, \"per-head\" or \"per-element\"");
    for (size_t l = 0; l < json_array_size(kinds); l++)
        if (laguna_is_element(json_array_get(kinds, l)) && !laguna_is_element(gating))
            return hf_config_fail(c, e,
                                  "gating_types has a gate per element, but gating is not \"per-element\"");
    if (!local || json_is_null(local)) return true;
    const json_t *given = json_object_get(local, "partial_rotary_factor");
    if ((given && !hf_value_float(c, given, "sliding_attention.partial_rotary_factor", &part, e)) ||
        !hf_config_sizes(c, &s, e))
        return false;
    if (!(part >= 0 && part <= 1))
        return hf_config_fail(c, e, "partial_rotary_factor is %g, expected 0 to 1", part);
    return hf_metadata_u32(p, i->key, (uint32_t)(s.head_width * part), e);
}
