/* What config.json asks for and the GGUF will not have. A reader of the file computes something else then,
 * and nothing in the file shows it: so it is told.
 */
#include "hf/doubts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/fail.h"
#include "hf/build_tensor.h"

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
    bool is_hunyuan = strncmp(b->config->arch, "hunyuan", 7) == 0;
    return text_is_one_of(type, plain) || (is_hunyuan && strcasecmp(type, "dynamic") == 0);
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
    static const char *const archs[] = {
        "llama", "mistral3", "qwen2",   "qwen2moe", "qwen3", "qwen3moe", "qwen3next", "deepseek2",
        "glm4",  "glm4moe",  "granite", "olmo2",    "phi3",  "olmoe",    "smollm3",   NULL};
    static const char *const silu[] = {"silu", "swish", "swiglu", NULL};
    const char *act = hf_config_text(b->config, "hidden_act");
    return !act || !text_is_one_of(b->config->arch, archs) || text_is_one_of(act, silu) ||
           DOUBT(
               b, e,
               "hidden_act is '%s', and whatever reads a file of the architecture %s computes silu: the file "
               "will not do what the model does",
               act, b->config->arch);
}

/* ---- what readers know by the architecture ---- */

static bool doubt_numbers(const hf_build *b, gq_error *e) {
    static const struct {
        const char *arch, *key;
        json_int_t value;
    } fixed[] = {{"cohere2", "sliding_window_pattern", 4},
                 {"gemma3", "sliding_window_pattern|_sliding_window_pattern", 6},
                 {"smollm3", "no_rope_layer_interval", 4},
                 {"llama4", "attention_chunk_size", 8192},
                 {"qwen3moe", "norm_topk_prob", true},
                 {"qwen2moe", "norm_topk_prob", false},
                 {"qwen2", "use_sliding_window", false},
                 {"qwen3", "use_sliding_window", false}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const json_t *v = hf_config_get(b->config, fixed[i].key);
        json_int_t value = json_is_true(v) ? 1 : json_integer_value(v);
        if (strcmp(fixed[i].arch, b->config->arch) != 0 || !(json_is_boolean(v) || json_is_integer(v)) ||
            value == fixed[i].value)
            continue;
        if (!DOUBT(b, e,
                   "%.*s is %lld, and whatever reads a file of the architecture %s takes %lld: the file will "
                   "not do what the model does",
                   (int)strcspn(fixed[i].key, "|"), fixed[i].key, (long long)value, fixed[i].arch,
                   (long long)fixed[i].value))
            return false;
    }
    return true;
}

/* Layers of attention to all tokens, the last of each period. */
static bool doubt_layer_kinds(const hf_build *b, gq_error *e) {
    static const struct {
        const char *arch;
        size_t period;
    } fixed[] = {{"gemma2", 2}, {"gpt-oss", 2}, {"cohere2", 4}, {"gemma3", 6}};
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        if (strcmp(fixed[i].arch, b->config->arch) != 0) continue;
        for (size_t layer = 0; layer < json_array_size(kinds) && layer < b->config->layers; layer++) {
            const char *kind = json_string_value(json_array_get(kinds, layer));
            bool is_full = layer % fixed[i].period == fixed[i].period - 1;
            if (kind && (strcmp(kind, "full_attention") == 0) != is_full)
                return DOUBT(
                    b, e,
                    "layer_types: layer %zu is '%s', and whatever reads a file of the architecture %s "
                    "has one of every %zu attend to all tokens, the last: the file will not do what "
                    "the model does",
                    layer, kind, fixed[i].arch, fixed[i].period);
        }
    }
    return true;
}

/* ---- biases ---- */

static bool has_attention_bias(const hf_build *b) {
    static const char *const ends[] = {"attn_q.bias", "attn_qkv.bias",    "attn_q_a.bias",     "attn_k.bias",
                                       "attn_v.bias", "attn_output.bias", "attn_kv_a_mqa.bias"};
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (strstr(b->tensors[i].tensor.name, ends[k])) return true;
    return false;
}

static bool doubt_biases(const hf_build *b, gq_error *e) {
    const json_t *said = hf_config_get(b->config, "attention_bias|use_qkv_bias|qkv_bias");
    return !json_is_true(said) || has_attention_bias(b) ||
           DOUBT(b, e,
                 "it says that queries, keys and values have a bias, but no array is one: see whether the "
                 "folder is whole");
}

bool hf_build_doubt(const hf_build *b, gq_error *e) {
    return doubt_rope(b, e) && doubt_activation(b, e) && doubt_numbers(b, e) && doubt_layer_kinds(b, e) &&
           doubt_biases(b, e);
}
