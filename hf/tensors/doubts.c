/* What config.json asks for and the GGUF will not have. A reader of the file computes something else then,
 * and nothing in the file shows it: so it is told.
 */
#include "hf/tensors/doubts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "hf/folder/config_read.h"
#include "hf/tensors/build_tensor.h"

#define DOUBT(b, e, ...) hf_folder_warn((b)->list->folder, "config.json", e, __VA_ARGS__)

static bool text_is_one_of(const char *text, const char *const *list) {
    while (*list && strcasecmp(*list, text) != 0) list++;
    return *list != NULL;
}

/* ---- the rotation ---- */

/* Kinds of rotation that need nothing in the file beyond what is there without them, or whose architecture
 * reads them in a way of its own. */
static bool rope_needs_nothing(const hf_build *b, const char *type) {
    static const char *const plain[] = {"default", "none", "mrope", "proportional", "su", "longrope", NULL};
    const char *own = b->config->row->folder.rope_type;
    return text_is_one_of(type, plain) || (own && strcasecmp(type, own) == 0);
}

static bool doubt_rope(const hf_build *b, gq_error *e) {
    static const char *const by_factor[] = {"linear", "yarn", NULL};
    const json_t *rope = hf_config_rope_full(b->config), *factor = json_object_get(rope, "factor");
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type || rope_needs_nothing(b, type)) return true;
    if (text_is_one_of(type, by_factor) && json_is_number(factor)) return true;
    if (strcasecmp(type, "llama3") == 0 && hf_build_find(b, "rope_freqs.weight")) return true;
    return DOUBT(
        b, e,
        "its rotation is of the type '%s', which a file of the architecture %s does not have%s: it is "
        "left out, and long texts may come out worse than in the original",
        type, b->config->arch, text_is_one_of(type, by_factor) ? " without a factor" : "");
}

/* ---- the activation ---- */

/* Architectures whose files do not say which activation they have: it is always SiLU. */
static bool doubt_activation(const hf_build *b, gq_error *e) {
    static const char *const silu[] = {"silu", "swish", "swiglu", NULL};
    const char *act = hf_config_text(b->config, "hidden_act");
    return !act || !b->config->row->folder.is_silu || text_is_one_of(act, silu) ||
           DOUBT(
               b, e,
               "hidden_act is '%s', and whatever reads a file of the architecture %s computes silu: the file "
               "will not do what the model does",
               act, b->config->arch);
}

/* ---- what readers know by the architecture ---- */

static bool doubt_number(const hf_build *b, gq_error *e) {
    const arch_folder *f = &b->config->row->folder;
    const json_t *v = f->assumed_key ? hf_config_get(b->config, f->assumed_key) : NULL;
    json_int_t value = json_is_true(v) ? 1 : json_integer_value(v);
    return !(json_is_boolean(v) || json_is_integer(v)) || value == f->assumed ||
           DOUBT(b, e,
                 "%.*s is %lld, and whatever reads a file of the architecture %s takes %lld: the file will "
                 "not do what the model does",
                 (int)strcspn(f->assumed_key, "|"), f->assumed_key, (long long)value, b->config->arch,
                 (long long)f->assumed);
}

/* Layers of attention to all tokens, the last of each period. */
static bool doubt_layer_kinds(const hf_build *b, gq_error *e) {
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    uint32_t period = b->config->row->graph.period_default;
    if (!b->config->row->folder.layers_by_number) return true;
    for (size_t layer = 0; layer < json_array_size(kinds) && layer < b->config->layers; layer++) {
        const char *kind = json_string_value(json_array_get(kinds, layer));
        bool is_full = layer % period == period - 1;
        if (kind && (strcmp(kind, "full_attention") == 0) != is_full)
            return DOUBT(b, e,
                         "layer_types: layer %zu is '%s', and whatever reads a file of the architecture %s "
                         "has one of every %u attend to all tokens, the last: the file will not do what "
                         "the model does",
                         layer, kind, b->config->arch, period);
    }
    return true;
}

/* ---- the vocabulary ---- */

static bool check_vocabulary(const hf_build *b, gq_error *e) {
    const hf_tensor *t = hf_build_find(b, "token_embd.weight");
    uint32_t said;
    if (!hf_config_u32_or(b->config, "vocab_size", 0, &said, e)) return false;
    return !t || b->config->row->folder.target || said <= t->tensor.ne[1] ||
           hf_config_fail(b->config, e, "vocab_size is %u, but '%s' has %llu rows", said,
                          t->stored_name ? t->stored_name : t->tensor.name,
                          (unsigned long long)t->tensor.ne[1]);
}

/* ---- what the config says is there ---- */

static const char *const attention_biases[] = {
    "attn_q.bias", "attn_qkv.bias",    "attn_q_a.bias",      "attn_k.bias",
    "attn_v.bias", "attn_output.bias", "attn_kv_a_mqa.bias", NULL};
static const char *const kernels[] = {"ssm_conv1d.weight", NULL},
                         *const kernel_biases[] = {"ssm_conv1d.bias", NULL},
                         *const routers[] = {"ffn_gate_inp.weight", NULL},
                         *const choices[] = {"exp_probs_b.bias", NULL};

/* Keys that are true, or this text; tensors, one of which then is in models that have one of `with` (NULL: in all). */
static const struct {
    const char *keys, *text;
    const char *const *with, *const *tensors;
    const char *what;
} said_to_be[] = {
    {"attention_bias|use_qkv_bias|qkv_bias", NULL, NULL, attention_biases,
     "queries, keys and values have a bias"},
    {"use_conv_bias|mamba_conv_bias", NULL, kernels, kernel_biases, "convolutions have a bias"},
    {"topk_method", "noaux_tc", routers, choices,
     "the choice of experts has a bias (e_score_correction_bias)"},
    {"moe_router_enable_expert_bias", NULL, routers, choices,
     "the choice of experts has a bias (expert_bias)"},
};

static bool has_any(const hf_build *b, const char *const *parts) {
    for (size_t i = 0; i < b->n; i++)
        for (const char *const *part = parts; *part; part++)
            if (strstr(b->tensors[i].tensor.name, *part)) return true;
    return false;
}

static bool doubt_said(const hf_build *b, gq_error *e) {
    for (size_t i = 0; i < sizeof said_to_be / sizeof *said_to_be; i++) {
        const json_t *said = hf_config_get(b->config, said_to_be[i].keys);
        const char *text = json_string_value(said), *expected = said_to_be[i].text;
        if (expected ? !text || strcmp(text, expected) != 0 : !json_is_true(said)) continue;
        if ((said_to_be[i].with && !has_any(b, said_to_be[i].with)) || has_any(b, said_to_be[i].tensors))
            continue;
        if (!DOUBT(b, e, "it says that %s, but no array is one: see whether the folder is whole",
                   said_to_be[i].what))
            return false;
    }
    return true;
}

bool hf_build_doubt(const hf_build *b, gq_error *e) {
    return check_vocabulary(b, e) && doubt_rope(b, e) && doubt_activation(b, e) && doubt_number(b, e) &&
           doubt_layer_kinds(b, e) && doubt_said(b, e);
}
