/* Stage 4, checks: whether the tensors are those of such a model, in the shapes that its config says; and what
 * config.json asks for and the GGUF will not have. A reader of the file computes something else then, and nothing in
 * the file shows it: so there is a warning.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gguf/facts.h"
#include "hf/tensors/tensors.h"

#define WARN(b, e, ...) hf_folder_warn((b)->list->folder, "config.json", e, __VA_ARGS__)

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

static bool warn_rope(const hf_build *b, gq_error *e) {
    static const char *const by_factor[] = {"linear", "yarn", NULL};
    const json_t *rope = hf_config_rope_full(b->config), *factor = json_object_get(rope, "factor");
    const char *type = json_string_value(json_object_get(rope, "rope_type"));
    if (!type)
        return !json_is_number(factor) || json_number_value(factor) == 1 ||
               WARN(
                   b, e,
                   "its rotation has a factor of %g, but no rope_type says of what kind: it is left out, and "
                   "long texts may come out worse than with the base model",
                   json_number_value(factor));
    if (rope_needs_nothing(b, type)) return true;
    if (text_is_one_of(type, by_factor) && json_is_number(factor)) return true;
    if (strcasecmp(type, "llama3") == 0 && hf_build_find(b, "rope_freqs.weight")) return true;
    return WARN(b, e,
                "rope_type is '%s', which GGUFs of the architecture %s do not support%s: it is left out, "
                "and long texts may get worse than with the base model",
                type, b->config->arch, text_is_one_of(type, by_factor) ? " without a factor" : "");
}

/* ---- the activation ---- */

/* Architectures whose files do not say which activation they have: it is always SiLU. */
static bool warn_activation(const hf_build *b, gq_error *e) {
    static const char *const silu[] = {"silu", "swish", "swiglu", NULL};
    const char *act = hf_config_text(b->config, "hidden_act");
    return !act || !b->config->row->folder.is_silu || text_is_one_of(act, silu) ||
           WARN(b, e,
                "hidden_act is '%s', but llama.cpp computes silu for the architecture %s: the GGUF's outputs "
                "will differ from the model's",
                act, b->config->arch);
}

/* ---- what readers know by the architecture ---- */

static bool warn_number(const hf_build *b, gq_error *e) {
    const arch_folder *f = &b->config->row->folder;
    const json_t *v = f->assumed_key ? hf_config_get(b->config, f->assumed_key) : NULL;
    json_int_t value = json_is_true(v) ? 1 : json_integer_value(v);
    return !(json_is_boolean(v) || json_is_integer(v)) || value == f->assumed ||
           WARN(b, e,
                "%.*s is %lld, but for the architecture %s llama.cpp assumes %lld: the GGUF's outputs will "
                "differ from the model's",
                (int)strcspn(f->assumed_key, "|"), f->assumed_key, (long long)value, b->config->arch,
                (long long)f->assumed);
}

/* Lists with an entry for each layer. */
static const char *const layer_lists[] = {
    "layer_types",   "mlp_layer_types",       "no_rope_layers",
    "rope_layout",   "sliding_window_layout", "hybrid_layer_pattern",
    "indexer_types", "attn_type_list",        "activation_sparsity_pattern"};

/* Merges and pruned models have lists of the model that they were made of. */
static bool warn_list_lengths(const hf_build *b, gq_error *e) {
    const hf_config *c = b->config;
    uint64_t bare = c->layers + c->row->bare_layers;
    for (size_t i = 0; i < sizeof layer_lists / sizeof *layer_lists; i++) {
        size_t n = json_array_size(hf_config_get(c, layer_lists[i]));
        if (n == 0 || n == c->layers || n == hf_config_blocks(c) || n == bare || c->target ||
            c->row->folder.stack)
            continue;
        if (!WARN(b, e,
                  "%s has %zu entries, but the model has %llu layer%s: if layers were removed or "
                  "duplicated, remove or duplicate their entries",
                  layer_lists[i], n, LLU(c->layers), plural_suffix(c->layers)))
            return false;
    }
    return true;
}

/* Whether readers have a layer attend to all tokens: one of each period. */
static bool layer_is_full(const hf_build *b, uint64_t layer) {
    const arch_graph *g = &b->config->row->graph;
    uint32_t period = g->period_default, own;
    if (g->first_global && hf_config_u32(b->config, "global_attn_every_n_layers", &own, NULL) && own)
        period = own;
    return layer % period == (g->first_global ? 0 : period - 1);
}

static bool warn_layer_kinds(const hf_build *b, gq_error *e) {
    const arch_graph *g = &b->config->row->graph;
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    bool is_mixed = g->window != WINDOW_CHUNKS; /* of chunks, a file can say that there are none */
    for (size_t l = 0; l < json_array_size(kinds); l++)
        is_mixed = is_mixed || !hf_json_is(json_array_get(kinds, l), "full_attention");
    for (size_t l = 0; is_mixed && l < json_array_size(kinds) && l < b->config->layers; l++) {
        const char *kind = hf_json_text(json_array_get(kinds, l));
        if (kind && g->window == WINDOW_NONE && strcmp(kind, "sliding_attention") == 0)
            return WARN(b, e,
                        "layer_types: layer %zu is '%s', but GGUFs of the architecture %s have no sliding "
                        "window: it attends to all tokens, which differs in texts longer than the window",
                        l, kind, b->config->arch);
        if (kind && b->config->row->folder.layers_by_number &&
            (strcmp(kind, "full_attention") == 0) != layer_is_full(b, l))
            return WARN(
                b, e,
                "layer_types: layer %zu is '%s', but for the architecture %s llama.cpp has one layer of "
                "every %u attend to all tokens, the %s: the GGUF's outputs will differ from the model's",
                l, kind, b->config->arch, g->period_default, g->first_global ? "first" : "last");
    }
    return true;
}

/* Layers without a rotation, where readers know them by their number alone. */
static bool warn_rotated_layers(const hf_build *b, gq_error *e) {
    const hf_config *c = b->config;
    no_rope rule = c->row->graph.no_rope;
    const char *name = rule == ROPE_NOT_FOURTH  ? "no_rope_layers"
                       : rule == ROPE_NOT_FIRST ? "rope_layout"
                                                : NULL;
    const json_t *list = name ? hf_config_get(c, name) : NULL,
                 *windows = hf_config_get(c, "sliding_window_layout");
    bool all_rotate = rule == ROPE_NOT_FIRST;
    for (size_t l = 0; l < json_array_size(windows); l++)
        all_rotate = all_rotate && json_integer_value(json_array_get(windows, l)) == 0;
    for (size_t l = 0; l < json_array_size(list) && l < c->layers; l++) {
        bool rotates = json_integer_value(json_array_get(list, l)) != 0;
        bool expected = all_rotate || (l + (rule == ROPE_NOT_FOURTH)) % 4 != 0;
        if (rotates != expected)
            return WARN(b, e,
                        "%s: layer %zu has %sRoPE, but for the architecture %s llama.cpp %s it: the GGUF's "
                        "outputs will differ from the model's",
                        name, l, rotates ? "" : "no ", c->arch, expected ? "applies" : "does not apply");
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
                          t->stored_name ? t->stored_name : t->tensor.name, LLU(t->tensor.ne[1]));
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
    {"topk_method", "noaux_tc", routers, choices, "the router has a bias (e_score_correction_bias)"},
    {"moe_router_enable_expert_bias", NULL, routers, choices, "the router has a bias (expert_bias)"},
};

static bool has_any(const hf_build *b, const char *const *parts) {
    for (size_t i = 0; i < b->n; i++)
        for (const char *const *part = parts; *part; part++)
            if (strstr(b->tensors[i].tensor.name, *part)) return true;
    return false;
}

static bool warn_said(const hf_build *b, gq_error *e) {
    for (size_t i = 0; i < sizeof said_to_be / sizeof *said_to_be; i++) {
        const json_t *said = hf_config_get(b->config, said_to_be[i].keys);
        const char *text = json_string_value(said), *expected = said_to_be[i].text;
        if (expected ? !text || strcmp(text, expected) != 0 : !json_is_true(said)) continue;
        if ((said_to_be[i].with && !has_any(b, said_to_be[i].with)) || has_any(b, said_to_be[i].tensors))
            continue;
        if (!WARN(b, e, "it says that %s, but there is no such tensor: check that the download is complete",
                  said_to_be[i].what))
            return false;
    }
    return true;
}

/* ---- the head ---- */

static bool config_says(const hf_build *b, bool tied) {
    static const char *const keys[] = {"tie_word_embeddings", "tie_embedding", "weight_tying"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *found[] = {hf_config_get(b->config, keys[i]),
                                 json_object_get(b->config->stored, keys[i])};
        for (int k = 0; k < 2; k++)
            if (tied ? json_is_true(found[k]) : json_is_false(found[k])) return true;
    }
    return false;
}

/* Returns what shows that a model was saved without its head, as embedding models are; NULL: nothing. */
static const char *saved_without_head(const hf_build *b) {
    const hf_tensor *t = hf_build_find(b, "token_embd.weight");
    const char *name = t && t->stored_name ? t->stored_name : "";
    if (b->config->class_row->is_trunk) return "its class has none";
    if (b->config->modules) return "modules.json makes it an embedding model";
    return b->completed.n && !name_behind(name, b->completed.prefix)
               ? "its arrays are those of the model that the head belongs to"
               : NULL;
}

/* The config says that the head is a matrix of its own. Gemma's embedding is the head whatever the config says. */
static bool head_is_own(const hf_build *b) {
    return config_says(b, false) && !config_says(b, true) && !b->arch->has_no_head &&
           !b->config->row->folder.needs_no_head;
}

bool hf_build_needs_head(const hf_build *b) { return head_is_own(b) && !saved_without_head(b); }

static bool warn_head(const hf_build *b, gq_error *e) {
    const char *why = saved_without_head(b);
    if (hf_build_find(b, "output.weight") || b->config->target || b->config->row->graph.embeds) return true;
    if (why && head_is_own(b))
        return hf_folder_warn(b->list->folder, "", e,
                              "missing output head (%s): the GGUF is for embeddings, and programs that "
                              "generate text use the token embedding as the head",
                              why);
    if (config_says(b, false) || config_says(b, true)) return true;
    return !b->config->row->folder.has_own_head ||
           hf_folder_warn(
               b->list->folder, "", e,
               "missing output head, and config.json lacks tie_word_embeddings: the token embedding is used");
}

/* ---- shapes ---- */

/* Reads an integer that may be missing, or of another kind: 0. */
static uint64_t shapes_number(const hf_config *c, const char *names) {
    uint32_t n = 0;
    return hf_config_get(c, names) && hf_config_u32(c, names, &n, NULL) ? n : 0;
}

/* Layers with full attention may have heads of their own. */
static uint64_t shapes_of_layer(const hf_build *b, uint64_t layer, const char *full, uint64_t all) {
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    bool is_full = hf_json_is(json_array_get(kinds, layer), "full_attention");
    uint64_t own = is_full ? shapes_number(b->config, full) : 0;
    return own ? own : all;
}

static uint64_t shapes_head(const hf_build *b, uint64_t layer) {
    return shapes_of_layer(b, layer, "global_head_dim", b->sizes.head_width);
}

/* Rows of the projection that makes a convolution's kernels: two of each group. */
static uint64_t shapes_kernels(const hf_build *b) {
    uint64_t group = shapes_number(b->config, "dflash_config.conv_group_size"),
             length = shapes_number(b->config, "dflash_config.conv_kernel_size");
    return group ? 2 * length * (b->sizes.width / group) : 0;
}

static uint64_t shapes_bias(const hf_build *b) {
    const hf_tensor *t = hf_build_find(b, "output.bias");
    return t ? t->tensor.ne[0] : 0;
}

/* Returns the size that the config gives for a dimension; 0: any. */
static uint64_t shapes_size(const hf_build *b, arch_dim dim, uint64_t layer) {
    const hf_config *c = b->config;
    const hf_sizes *s = &b->sizes;
    uint64_t tokens = b->n_tokens == UINT64_MAX ? 0 : b->n_tokens, streams = shapes_number(c, "hc_mult"),
             groups = shapes_number(c, "o_groups"), q = s->heads * shapes_head(b, layer);
    switch (dim) { /* without a default: the compiler names a member that is missing */
    case DIM_ANY:
        return 0;
    case DIM_NONE:
    case DIM_1:
        return 1;
    case DIM_2:
        return 2;
    case DIM_3:
        return 3;
    case DIM_WIDTH:
        return s->width;
    case DIM_TWO_WIDTHS:
        return 2ull * s->width;
    case DIM_TWO_TARGET_WIDTHS:
        return 2 * shapes_number(c, "backbone_hidden_size");
    case DIM_TARGET_HIDDEN_STATES:
        return hf_draft_hidden_states(c);
    case DIM_TOKENS:
        return tokens;
    case DIM_DRAFT_TOKENS:
        return hf_draft_tokens(c) ? hf_draft_tokens(c) : tokens;
    case DIM_HEADS:
        return s->heads;
    case DIM_HEAD_WIDTH:
        return shapes_head(b, layer);
    case DIM_QUERIES:
        return q;
    case DIM_KEYS:
        return shapes_of_layer(b, layer, "num_global_key_value_heads", s->kv_heads) * shapes_head(b, layer);
    case DIM_GROUP_WIDTH:
        return groups ? q / groups : 0;
    case DIM_GROUPS_RANK:
        return groups * shapes_number(c, "o_lora_rank");
    case DIM_SHARED_EXPERT_WIDTH:
        return shapes_number(c, "moe_intermediate_size") * shapes_number(c, "n_shared_experts");
    case DIM_ALL_STREAMS:
        return streams * s->width;
    case DIM_STREAM_MIX: /* the sublayer's input, its output, and each stream from each */
        return streams * (2 + streams);
    case DIM_CONV_ROWS:
        return shapes_kernels(b);
    case DIM_OUTPUTS:
        return hf_config_has(c, "output_size") ? shapes_number(c, "output_size") : shapes_bias(b);
#define OF_KEY(member, key) \
    case member: \
        return shapes_number(c, key);
        ARCH_DIMS_OF_KEYS(OF_KEY)
#undef OF_KEY
    }
    return 0;
}

static bool shape_fits(const hf_build *b, const arch_shape *s, uint64_t layer, const hf_tensor *t,
                       gq_error *e) {
    _Static_assert((int)ARCH_DIMS == (int)GGUF_MAX_DIMS, "a row has a size for each dimension");
    for (size_t i = 0; i < GGUF_MAX_DIMS; i++) {
        uint64_t expected = shapes_size(b, s->shape[i], layer), found = t->tensor.ne[i];
        if (expected && found != expected)
            return hf_config_fail(b->config, e,
                                  "tensor '%s' becomes %s with %llu %s, expected %llu by the config",
                                  t->stored_name ? t->stored_name : "", t->tensor.name, LLU(found),
                                  i == 0 ? "columns" : "rows", LLU(expected));
    }
    return true;
}

static bool shape_counts(const hf_build *b, const arch_shape *s) {
    uint64_t n = s->if_fewer ? shapes_number(b->config, s->if_fewer) : 0;
    return (!s->with || hf_build_find(b, s->with)) &&
           (!s->if_true || json_is_true(hf_config_get(b->config, s->if_true))) &&
           (!s->if_fewer || (n && n < shapes_number(b->config, "vocab_size")));
}

static bool shape_fail_missing(const hf_build *b, const char *name, gq_error *e) {
    char own[512] = "";
    bool is_known = hf_names_find_source(b, name, own, sizeof own);
    return hf_config_fail(b->config, e, "missing tensor %s%s%s%s, which such a model has", name,
                          is_known ? " (" : "", own, is_known ? ")" : "");
}

static const hf_tensor *shape_find(const hf_build *b, const arch_shape *s, uint64_t layer,
                                   char name[GGUF_MAX_NAME + 1]) {
    hf_pattern_write(s->tensor, layer, UINT64_MAX, "", name, GGUF_MAX_NAME + 1);
    return hf_build_find(b, name);
}

/* Whether any of n layers has the tensor: then all must. */
static bool shape_in_any(const hf_build *b, const arch_shape *s, uint64_t n) {
    char name[GGUF_MAX_NAME + 1];
    for (uint64_t i = 0; i < n; i++)
        if (shape_find(b, s, i, name)) return true;
    return false;
}

/* Adds a name to a list in a text. */
static void missing_add(char *missing, size_t size, const char *name) {
    size_t n = strlen(missing);
    snprintf(missing + n, size - n, "%s%s", n ? ", " : "", name);
}

/* missing: the names of tensors of whose absence is reported. */
static bool shape_check(const hf_build *b, const arch_shape *s, char *missing, size_t size, gq_error *e) {
    char name[GGUF_MAX_NAME + 1];
    uint64_t n = strchr(s->tensor, '#') ? b->config->layers : 1;
    bool must = s->when == SHAPE_NEEDED || (s->when == SHAPE_ALL_OR_NONE && shape_in_any(b, s, n));
    for (uint64_t i = 0; i < n; i++) {
        const hf_tensor *t = shape_find(b, s, i, name);
        if (t && !shape_fits(b, s, i, t, e)) return false;
        if (!t && must) return shape_fail_missing(b, name, e);
        if (!t && s->when == SHAPE_WARNED) missing_add(missing, size, name);
    }
    return true;
}

/* Sizes of the config that are above 0 where it has them: others would leave shapes unknown. */
static bool shapes_check_sizes(const hf_config *c, gq_error *e) {
    static const char *const sizes[] = {"hidden_size",         "intermediate_size", "num_attention_heads",
                                        "num_key_value_heads", "head_dim",          "backbone_hidden_size",
                                        "block_size"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const json_t *v = hf_config_get(c, sizes[i]);
        if (json_is_number(v) && !(json_number_value(v) > 0))
            return hf_config_fail(c, e, "%s is %g, expected 1 or more", sizes[i], json_number_value(v));
    }
    return true;
}

static bool shapes_check(const hf_build *b, gq_error *e) {
    char missing[256] = "";
    const arch_shape *of_class = b->config->class_row->shapes,
                     *all = of_class ? of_class : b->config->row->folder.shapes;
    if (all && !shapes_check_sizes(b->config, e)) return false;
    for (const arch_shape *s = all; s && s->tensor; s++)
        if (shape_counts(b, s) && !shape_check(b, s, missing, sizeof missing, e)) return false;
    return !*missing ||
           hf_folder_warn(b->list->folder, "", e,
                          "missing tensor %s: programs do without it, or use the target's", missing);
}

/* ---- all ---- */

/* Source tensors that are transposed leave it open whether those are whose shape does not tell. */
static bool check_transposed(const hf_build *b, gq_error *e) {
    if (!b->transposed) return true;
    if (b->square)
        return hf_list_fail(b->square->list, b->square->stored, e,
                            "its matrices are square, and those of '%s' are transposed: whether these are "
                            "cannot be known; convert the folder with the program that made it",
                            b->transposed->name);
    return hf_folder_warn(b->list->folder, "", e,
                          "matrices of experts such as '%s' are transposed: they are transposed back",
                          b->transposed->name);
}

static bool check_layers(const hf_build *b, gq_error *e) {
    uint64_t blocks = hf_config_blocks(b->config);
    bool *has = calloc(blocks + 1, sizeof *has), ok = has || gq_fail_memory(e, blocks);
    for (size_t i = 0; ok && i < b->n; i++) {
        model_block block;
        if (model_block_in(b->tensors[i].tensor.name, &block) && block.number < blocks)
            has[block.number] = true;
    }
    for (uint64_t i = 0; ok && i < blocks; i++)
        if (!has[i] && !b->config->row->graph.lacks_sublayers)
            ok = hf_config_fail(b->config, e, "no tensor belongs to layer %llu of %llu", LLU(i), LLU(blocks));
    free(has);
    return ok;
}

bool hf_build_check(const hf_build *b, gq_error *e) {
    return check_transposed(b, e) && check_layers(b, e) && warn_head(b, e) && shapes_check(b, e) &&
           check_vocabulary(b, e) && warn_rope(b, e) && warn_activation(b, e) && warn_number(b, e) &&
           warn_list_lengths(b, e) && warn_layer_kinds(b, e) && warn_rotated_layers(b, e) && warn_said(b, e);
}
