/* Arrays with a value for each layer: which have a window, or how many heads of keys and values each has (0:
 * the layer has no attention). Configs say it in many ways: by a list of kinds, of numbers, a period, a
 * string of letters. Numbers become an array of i32, flags one of bool. */
#include <stdio.h>
#include <string.h>

#include "hf/metadata/metadata.h"

/* ---- parts ---- */

static bool layers_need_list(const hf_config *c, const char *name, const json_t **list, gq_error *e) {
    return arch_layer_list(c, name, list, e) &&
           (*list ||
            hf_config_fail(c, e, "%s is missing: an array with an entry for each layer is expected", name));
}

static bool layers_set_flags(hf_metadata *p, const char *key, const json_t *list, const char *kind,
                             gq_error *e) {
    for (size_t l = 0; l < json_array_size(list); l++)
        if (!hf_metadata_add_bool(p, arch_layer_is(list, l, kind), e)) return false;
    return hf_metadata_array(p, key, GGUF_BOOL, e);
}

/* Sets heads of keys and values: all in layers that have attention, 0 in the others. */
typedef bool layers_ask(const hf_config *c, uint64_t layer);
static bool layers_set_heads(const hf_config *c, hf_metadata *p, const char *key, layers_ask *has_attention,
                             gq_error *e) {
    hf_sizes s;
    if (!hf_config_sizes(c, &s, e)) return false;
    for (uint64_t l = 0; l < c->layers; l++)
        if (!arch_add_number(c, p, has_attention(c, l) ? s.kv_heads : 0, e)) return false;
    return hf_metadata_array(p, key, GGUF_INT32, e);
}

/* ---- flags ---- */

KV_MAKE(layers_flags) {
    char name[HF_NAMES_PART];
    const char *kind = arch_names_part(name, i->names, "=");
    const json_t *list;
    if (i->need == IF && !arch_value(c, name)) return true;
    return layers_need_list(c, name, &list, e) && layers_set_flags(p, i->key, list, kind, e);
}

KV_MAKE(layers_used) {
    const json_t *list;
    if (!arch_layer_list(c, i->names, &list, e)) return false;
    for (size_t l = 0; l < json_array_size(list); l++)
        if (!hf_metadata_add_bool(p, json_number_value(json_array_get(list, l)) != 0, e)) return false;
    return hf_metadata_array(p, i->key, GGUF_BOOL, e);
}

KV_MAKE(layers_value) {
    double found = i->value;
    const json_t *given = i->names ? arch_value(c, i->names) : NULL;
    if (given && !hf_value_float(c, given, i->names, &found, e)) return false;
    if (i->need == IF_NOT_ZERO && (float)found == 0) return true;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!hf_metadata_add_f32(p, (float)found, e)) return false;
    return hf_metadata_array(p, i->key, GGUF_FLOAT32, e);
}

KV_MAKE(layers_same) {
    char name[HF_NAMES_PART];
    const char *second = arch_names_part(name, i->names, " ");
    const json_t *list, *one = arch_value(c, second);
    if (!arch_layer_list(c, name, &list, e)) return false;
    for (uint64_t l = 0; l < c->layers; l++) {
        uint32_t value;
        if (!hf_value_u32(c, list ? json_array_get(list, l) : one, list ? name : second, &value, e) ||
            !arch_add_number(c, p, value, e))
            return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

/* Sets the width of the window and the layers that have one: those of a list, or all but every n-th, or by a
 * string of letters that is repeated. */
static bool layers_set_window(const hf_config *c, hf_metadata *p, uint32_t period, const char *letters,
                              gq_error *e) {
    static const arch_item window[] = {U32(".attention.sliding_window", "sliding_window"), END};
    const char *key = ".attention.sliding_window_pattern";
    const json_t *list;
    if (!arch_plain_set(window, c, p, e) || !arch_layer_list(c, "layer_types", &list, e)) return false;
    if (list) return layers_set_flags(p, key, list, "sliding_attention", e);
    for (uint64_t l = 0; l < c->layers; l++)
        if (!hf_metadata_add_bool(p, letters ? letters[l % strlen(letters)] == 'L' : (l + 1) % period != 0,
                                  e))
            return false;
    return hf_metadata_array(p, key, GGUF_BOOL, e);
}

KV_MAKE(layers_olmo_window) {
    return !hf_config_has(c, "sliding_window") || layers_set_window(c, p, 4, NULL, e);
}

KV_MAKE(layers_used_window) {
    const json_t *kinds;
    if (json_is_false(arch_value(c, "use_sliding_window")) || !arch_value(c, "sliding_window")) return true;
    return layers_need_list(c, "layer_types", &kinds, e) && layers_set_window(c, p, 1, NULL, e);
}

/* Without a list, all layers but each fourth, from the first on, have a window. */
KV_MAKE(layers_granite_window) {
    const json_t *kinds;
    if (!arch_layer_list(c, "layer_types", &kinds, e)) return false;
    if (kinds) return layers_set_flags(p, i->key, kinds, "sliding_attention", e);
    for (uint64_t l = 0; l < c->layers; l++)
        if (!hf_metadata_add_bool(p, l % 4 != 0, e)) return false;
    return hf_metadata_array(p, i->key, GGUF_BOOL, e);
}

KV_MAKE(layers_exaone_window) {
    const char *letters = hf_config_text(c, "sliding_window_pattern");
    uint32_t period = 1;
    if (!arch_value(c, "sliding_window")) return true;
    if (!arch_value(c, "layer_types") && !letters && !hf_config_u32(c, "sliding_window_pattern", &period, e))
        return false;
    if ((letters && !*letters) || period == 0)
        return hf_config_fail(c, e, "sliding_window_pattern is %s, expected a period or letters",
                              letters ? "empty" : "0");
    return layers_set_window(c, p, period, letters, e);
}

/* ---- heads of keys and values ---- */

KV_MAKE(layers_kind_heads) {
    char name[HF_NAMES_PART];
    const char *kind = arch_names_part(name, i->names, "=!");
    const json_t *list;
    hf_sizes s;
    if (!layers_need_list(c, name, &list, e) || !hf_config_sizes(c, &s, e)) return false;
    for (uint64_t l = 0; l < c->layers; l++) {
        bool attends = arch_layer_is(list, l, kind) == (kind[-1] == '=');
        if (!arch_add_number(c, p, attends ? s.kv_heads : 0, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

/* Period and offset were read before. */
static bool layers_is_periodic(const hf_config *c, uint64_t layer) {
    uint64_t period = (uint64_t)json_integer_value(arch_value(c, "attn_layer_period"));
    uint64_t offset = (uint64_t)json_integer_value(arch_value(c, "attn_layer_offset"));
    return layer >= offset && (layer - offset) % period == 0;
}

KV_MAKE(layers_period_heads) {
    uint32_t period, offset;
    if (!hf_config_u32(c, "attn_layer_period", &period, e) ||
        !hf_config_u32(c, "attn_layer_offset", &offset, e))
        return false;
    if (period == 0) return hf_config_fail(c, e, "attn_layer_period is 0, expected at least 1");
    return layers_set_heads(c, p, i->key, layers_is_periodic, e);
}

KV_MAKE(layers_kimi_heads) {
    const char *name = "linear_attn_config.full_attn_layers"; /* counted from 1 */
    const json_t *list = arch_value(c, name);
    if (!json_is_array(list)) return hf_config_fail(c, e, "%s: expected an array of layers' numbers", name);
    if (json_array_size(list) > c->layers)
        return hf_config_fail(c, e, "%s has %zu entries, expected at most %llu, one for each layer", name,
                              json_array_size(list), LLU(c->layers));
    for (uint64_t l = 1; l <= c->layers; l++) {
        uint32_t full = 0;
        for (size_t n = 0; n < json_array_size(list) && !full; n++)
            full = json_integer_value(json_array_get(list, n)) == (json_int_t)l;
        if (!arch_add_number(c, p, full, e)) return false;
    }
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(layers_latent_heads) {
    const json_t *list;
    if (!layers_need_list(c, i->names, &list, e)) return false;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++)
        if (!arch_add_number(c, p, !arch_layer_is(list, l, "linear_attention"), e)) return false;
    return hf_metadata_array(p, i->key, GGUF_INT32, e);
}

KV_MAKE(layers_granite) {
    uint32_t width, expand, head;
    if (!hf_config_u32(c, "hidden_size", &width, e) || !hf_config_u32(c, "mamba_expand", &expand, e) ||
        !hf_config_u32_or(c, "mamba_d_head", 64, &head, e))
        return false;
    if (head == 0 || (uint64_t)width * expand % head != 0)
        return hf_config_fail(c, e,
                              "mamba_expand x hidden_size is %llu, expected a multiple of mamba_d_head, %u",
                              LLU(width) * expand, head);
    /* Without rotation the context has no limit that was trained. */
    bool tuned = c->class_row->when != WHEN_RECURRENT || c->class_row->rotates;
    return layers_set_heads(c, p, ".attention.head_count_kv", hf_granite_has_attention, e) &&
           hf_metadata_bool(p, ".rope.scaling.finetuned", tuned, e) &&
           (tuned || hf_metadata_u32(p, ".context_length", 1 << 20, e));
}

/* ---- nemotron_h: each block is one thing: recurrent, attention, feed-forward, or experts ---- */

/* Returns a block's letter: M, *, - or E; 0: none of them is known for it. */
static char nemotron_letter(const hf_config *c, const char *letters, const json_t *kinds, uint64_t layer) {
    if (letters) return letters[layer];
    (void)c;
    if (arch_layer_is(kinds, layer, "attention")) return '*';
    return arch_layer_is(kinds, layer, "moe") ? 'E' : 'M';
}

/* MTP layers have both attention and experts. */
KV_MAKE(layers_nemotron) {
    const char *letters = hf_config_text(c, "hybrid_override_pattern");
    const json_t *kinds = NULL;
    bool experts = arch_has_sublayer(c->row, FFN_EXPERTS);
    uint32_t width;
    hf_sizes s;
    if (letters && strlen(letters) != c->layers)
        return hf_config_fail(c, e,
                              "hybrid_override_pattern has %zu letters, expected one for each of %llu layers",
                              strlen(letters), LLU(c->layers));
    if ((!letters && !layers_need_list(c, "layers_block_type", &kinds, e)) || !hf_config_sizes(c, &s, e) ||
        !hf_config_u32(c, experts ? "moe_intermediate_size" : "intermediate_size", &width, e))
        return false;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++) {
        bool attends = l >= c->layers || nemotron_letter(c, letters, kinds, l) == '*';
        if (!arch_add_number(c, p, attends ? s.kv_heads : 0, e)) return false;
    }
    if (!hf_metadata_array(p, ".attention.head_count_kv", GGUF_INT32, e)) return false;
    for (uint64_t l = 0; l < hf_config_blocks(c); l++) {
        bool forwards = l >= c->layers || nemotron_letter(c, letters, kinds, l) == (experts ? 'E' : '-');
        if (!arch_add_number(c, p, forwards ? width : 0, e)) return false;
    }
    return hf_metadata_array(p, ".feed_forward_length", GGUF_INT32, e);
}
