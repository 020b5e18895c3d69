#include "arch/arch.h"

#include <string.h>

#include "arch/projector.h"
#include "arch/rows.h"
#include "gguf/facts.h"

static const architecture *const files[] = {
    arch_rows_llama,   arch_rows_qwen,     arch_rows_gemma,     arch_rows_latent,    arch_rows_kda,
    arch_rows_granite, arch_rows_makers,   arch_rows_recurrent, arch_rows_experts,   arch_rows_plain,
    arch_rows_images,  arch_rows_encoders, arch_rows_others,    arch_rows_diffusion, arch_rows_drafts};

enum { FILES = sizeof files / sizeof *files };

const architecture *arch_at(size_t i) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (i-- == 0) return a;
    return NULL;
}

const architecture *arch_named(const char *name) {
    for (size_t f = 0; f < FILES; f++)
        for (const architecture *a = files[f]; a->name; a++)
            if (strcmp(a->name, name) == 0) return a;
    return NULL;
}

static bool facts_are_of_embeddings(const model_facts *f) {
    int64_t causal;
    return model_fact(f, "pooling_type") || model_fact(f, "embedding_length_out") ||
           (model_fact_at(model_fact(f, "attention.causal"), 0, &causal) && !causal);
}

const architecture *arch_of_facts(const model_facts *facts) {
    const architecture *row = arch_named(facts->arch), *a;
    for (size_t i = 0; row && (a = arch_at(i)); i++)
        if (a->of_embeddings && strcmp(a->name, row->name) == 0 && facts_are_of_embeddings(facts)) return a;
    return row;
}

bool arch_has_sublayer(const architecture *a, arch_sublayer sublayer) {
    for (int i = 0; i < ARCH_GRAPH_SUBLAYERS; i++)
        if (a->graph.mixers[i] == sublayer || a->graph.ffns[i] == sublayer) return true;
    return a->graph.beside == sublayer || a->graph.tail == sublayer || a->graph.bank == sublayer;
}

bool arch_is_by_number(const architecture *a, arch_by_number what, uint64_t layers) {
    for (size_t i = 0; i < sizeof a->by_number / sizeof *a->by_number; i++) {
        const arch_numbered *n = &a->by_number[i];
        if (n->what == what && layers >= n->least && layers <= n->most) return true;
    }
    return false;
}

/* What is known of a key by how it is made: its type, and whether it may be a list. */
static arch_key key_of_make(arch_make make) {
#define MAKE_TYPE(member, function, type) [member] = ARCH_KEY_##type,
    static const arch_key_type types[ARCH_MAKE_LIMIT] = {ARCH_MAKES(MAKE_TYPE)};
#undef MAKE_TYPE
    bool of_layers = make == KV_LENGTHS || make == KV_KV_HEADS;
    return (arch_key){.type = types[make],
                      .list = of_layers     ? LIST_OF_LAYERS
                              : types[make] ? LIST_NONE
                                            : LIST_ANY};
}

/* The item of a list, or of lists in it, that makes a key of an architecture, and a type that is known if is_typed;
 * NULL: none. */
static const arch_item *item_of_key(const arch_item *list, const char *name, bool is_typed) {
    const arch_item *found = NULL;
    for (const arch_item *i = list; i && i->make != MAKE_END && !found; i++)
        if (i->make == KV_LIST || i->make == KV_LIST_IF)
            found = item_of_key(i->list, name, is_typed);
        else if (i->key && *i->key == '.' && !strcmp(i->key + 1, name) &&
                 (!is_typed || key_of_make(i->make).type))
            found = i;
    return found;
}

static arch_key key_in_list(const arch_item *list, const char *name) {
    const arch_item *i = item_of_key(list, name, true);
    return i ? key_of_make(i->make) : (arch_key){.type = ARCH_KEY_UNKNOWN};
}

bool arch_makes_key(const architecture *a, const char *name) {
    return item_of_key(a->folder.metadata, name, false);
}

#define BOUND 1e6 /* of factors */
#define COUNT(n) \
    { (n), ARCH_KEY_INTEGER, LIST_NONE, 0, 0 }
#define COUNT_WITHIN(n, least, most) \
    { (n), ARCH_KEY_INTEGER, LIST_NONE, (least), (most) }
#define COUNT_OF_LAYERS(n) \
    { (n), ARCH_KEY_INTEGER, LIST_OF_LAYERS, 0, 0 }
#define REAL(n, least, most) \
    { (n), ARCH_KEY_FLOAT, LIST_NONE, (least), (most) }
#define REAL_OF_LAYERS(n, least, most) \
    { (n), ARCH_KEY_FLOAT, LIST_OF_LAYERS, (least), (most) }

/* A 0 within the bounds means that the model has no such factor, or nothing to clamp to. */
const arch_key arch_keys[] = {
    COUNT_WITHIN("block_count", 1, INT32_MAX),
    COUNT_WITHIN("context_length", 1, INT32_MAX),
    COUNT_WITHIN("embedding_length", 1, INT32_MAX),
    COUNT_WITHIN("n_deepstack_layers", 0, 64), /* published models have 3 */
    COUNT_WITHIN("altup.num_inputs", 4, 4),    /* as many as llama.cpp has room for */
    COUNT_WITHIN("altup.active_idx", 0, 3),
    COUNT_WITHIN("expert_gating_func", 0, 4),
    COUNT_WITHIN("pooling_type", 0, 4),
    COUNT("vocab_size"),
    COUNT("embedding_length_out"),
    COUNT("attention.key_length"),
    COUNT("attention.value_length"),
    COUNT("attention.q_lora_rank"),
    COUNT("attention.kv_lora_rank"),
    COUNT("rope.dimension_count"),
    COUNT("rope.scaling.original_context_length"),
    COUNT("attention.sliding_window"),
    COUNT("expert_count"),
    COUNT("expert_shared_count"),
    COUNT("expert_shared_feed_forward_length"),
    COUNT("attention.decay_lora_rank"),
    COUNT("attention.gate_lora_rank"),
    COUNT("attention.iclr_lora_rank"),
    COUNT("attention.value_residual_mix_lora_rank"),
    COUNT("attention.temperature_length"),
    COUNT("time_mix_extra_dim"),
    COUNT("time_decay_extra_dim"),
    COUNT("ple.conv_kernel"),
    COUNT("ple.heads_per_ngram"),
    COUNT("ple.ngram_size"),
    COUNT("hrm.h_cycles"),
    COUNT("hrm.l_cycles"),
    COUNT("hrm.layers_per_stack"),
    COUNT("leading_dense_block_count"),
    COUNT("embedding_length_per_layer_input"),
    COUNT("nextn_predict_layers"),
    COUNT("ssm.conv_kernel"),
    COUNT("ssm.inner_size"),
    COUNT("ssm.state_size"),
    COUNT("ssm.time_step_rank"),
    COUNT("ssm.group_count"),
    COUNT_OF_LAYERS("attention.head_count"),
    COUNT_OF_LAYERS("attention.head_count_kv"),
    COUNT_OF_LAYERS("feed_forward_length"),
    COUNT_OF_LAYERS("expert_feed_forward_length"),
    COUNT_OF_LAYERS("expert_used_count"),
    {"attention.sliding_window_pattern", ARCH_KEY_INTEGER, LIST_ANY, 0, 0},
    {"rope.dimension_sections", ARCH_KEY_INTEGER, LIST_ANY, 0, 0},
    REAL("attention.layer_norm_epsilon", 0, 1),
    REAL("attention.layer_norm_rms_epsilon", 0, 1),
    REAL("attention.group_norm_epsilon", 0, 1),
    REAL("vision.attention.layer_norm_epsilon", 0, 1),
    REAL("audio.attention.layer_norm_epsilon", 0, 1),
    REAL("hyper_connection.epsilon", 0, 1),
    REAL("rope.freq_base", 1, 1e30),
    REAL("rope.freq_base_swa", 1, 1e30),
    REAL("rope.scaling.factor", 1e-3, BOUND),
    REAL("rope.scaling.alpha", 1e-3, 1e9),
    REAL("rope.scaling.attn_factor", 1e-6, BOUND),
    REAL("rope.scaling.yarn_attn_factor", 1e-6, BOUND),
    REAL("rope.scaling.yarn_ext_factor", -BOUND, BOUND),
    REAL("rope.scaling.yarn_log_multiplier", -BOUND, BOUND),
    REAL("rope.scaling.yarn_beta_fast", 0, BOUND),
    REAL("rope.scaling.yarn_beta_slow", 0, BOUND),
    REAL("attention.scale", 0, 0),
    REAL("attention.max_alibi_bias", 0, 0),
    REAL("attention.output_scale", 0, 0),
    REAL("attention.temperature_scale", 0, 0),
    REAL("attention.value_scale", 0, BOUND),
    REAL("embedding_scale", 0, BOUND),
    REAL("residual_scale", 0, BOUND),
    REAL("logit_scale", 0, BOUND),
    REAL("expert_weights_scale", 0, BOUND),
    REAL("hyper_connection.magnitude", 0, BOUND),
    REAL("attn_logit_softcapping", 0, BOUND),
    REAL("final_logit_softcapping", 0, BOUND),
    REAL("router_logit_softcapping", 0, BOUND),
    REAL_OF_LAYERS("swiglu_clamp_exp", 0, BOUND),
    REAL_OF_LAYERS("swiglu_clamp_shexp", 0, BOUND),
    {"attention.causal", ARCH_KEY_BOOL, LIST_NONE, 0, 0},
    {"expert_weights_norm", ARCH_KEY_BOOL, LIST_NONE, 0, 0},
    {"rope.scaling.finetuned", ARCH_KEY_BOOL, LIST_NONE, 0, 0},
    {"ssm.dt_b_c_rms", ARCH_KEY_BOOL, LIST_NONE, 0, 0},
    {"rope.scaling.type", ARCH_KEY_TEXT, LIST_NONE, 0, 0},
    {NULL, ARCH_KEY_UNKNOWN, LIST_ANY, 0, 0},
};

/* Keys of all files, by their beginning and end; NULL: any end. The first row counts. */
static const struct {
    const char *begin, *end;
    arch_key_type type;
} common_keys[] = {{"tokenizer.ggml.add_", NULL, ARCH_KEY_BOOL},
                   {"tokenizer.ggml.", "_token_id", ARCH_KEY_INTEGER},
                   {"tokenizer.ggml.token_type_count", "", ARCH_KEY_INTEGER},
                   {"tokenizer.ggml.normalizer.", NULL, ARCH_KEY_BOOL},
                   {"tokenizer.ggml.model", "", ARCH_KEY_TEXT},
                   {"tokenizer.ggml.remove_extra_whitespaces", "", ARCH_KEY_BOOL},
                   {"tokenizer.ggml.escape_whitespaces", "", ARCH_KEY_BOOL},
                   {"tokenizer.ggml.precompiled_charsmap", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.eos_token_ids", "", ARCH_KEY_LIST},
                   {"tokenizer.ggml.tokens", "", ARCH_KEY_TEXTS},
                   {"tokenizer.ggml.token_type", "", ARCH_KEY_INTEGERS},
                   {"tokenizer.ggml.scores", "", ARCH_KEY_FLOATS},
                   {"tokenizer.ggml.merges", "", ARCH_KEY_TEXTS},
                   {"tokenizer.ggml.pre", "", ARCH_KEY_TEXT},
                   {"tokenizer.chat_template", "", ARCH_KEY_TEXT},
                   {"general.sampling.sequence", "", ARCH_KEY_TEXT},
                   {"general.sampling.", NULL, ARCH_KEY_NUMBER},
                   {"general.name", "", ARCH_KEY_TEXT},
                   {"general.type", "", ARCH_KEY_TEXT},
                   {"general.file_type", "", ARCH_KEY_INTEGER},
                   {"general.architecture", "", ARCH_KEY_TEXT}};

bool arch_key_is_ignored(const architecture *a, const char *name) {
    return a->graph.own_kv_layers && strcmp(name, "attention.shared_kv_layers") == 0;
}

arch_key arch_key_of(const char *key) {
    const char *dot = strchr(key, '.');
    size_t length = strlen(key);
    for (size_t i = 0; i < sizeof common_keys / sizeof *common_keys; i++) {
        const char *end = common_keys[i].end;
        size_t n = strlen(common_keys[i].begin), m = end ? strlen(end) : 0;
        if (strncmp(key, common_keys[i].begin, n) == 0 &&
            (!end || (*end ? length >= n + m && strcmp(key + length - m, end) == 0 : length == n)))
            return (arch_key){.type = common_keys[i].type, .list = LIST_NONE};
    }
    arch_key found = {.type = ARCH_KEY_UNKNOWN};
    const architecture *a;
    for (size_t i = 0; dot && !found.type && (a = arch_at(i)); i++) {
        if (strncmp(key, a->name, (size_t)(dot - key)) != 0 || a->name[dot - key]) continue;
        if (arch_key_is_ignored(a, dot + 1)) return found;
        for (const arch_key *k = arch_keys; k->name; k++)
            if (strcmp(k->name, dot + 1) == 0) return *k;
        found = key_in_list(a->folder.metadata, dot + 1);
        const arch_projector *row;
        for (size_t p = 0; a->is_projector && !found.type && (row = arch_projector_at(p)); p++)
            found = key_in_list(row->folder.metadata, dot + 1);
    }
    return found;
}

const char *arch_key_type_name(arch_key_type type) {
    static const char *const names[] = {[ARCH_KEY_UNKNOWN] = "",
                                        [ARCH_KEY_INTEGER] = "number of 32 bits without a sign",
                                        [ARCH_KEY_FLOAT] = "float",
                                        [ARCH_KEY_BOOL] = "bool",
                                        [ARCH_KEY_TEXT] = "string",
                                        [ARCH_KEY_LIST] = "list",
                                        [ARCH_KEY_INTEGERS] = "list of i32",
                                        [ARCH_KEY_FLOATS] = "list of f32",
                                        [ARCH_KEY_TEXTS] = "list of strings",
                                        [ARCH_KEY_NUMBER] = "number"};
    return names[type];
}

bool arch_key_type_is(arch_key_type type, bool is_list, uint32_t stored) {
    switch (type) {
    case ARCH_KEY_INTEGER:
        return stored == GGUF_U32 || (is_list && (stored == GGUF_INT32 || stored == GGUF_BOOL));
    case ARCH_KEY_FLOAT:
        return stored == GGUF_FLOAT32;
    case ARCH_KEY_BOOL:
        return stored == GGUF_BOOL;
    case ARCH_KEY_TEXT:
        return stored == GGUF_STRING;
    case ARCH_KEY_LIST:
        return is_list;
    case ARCH_KEY_INTEGERS:
        return is_list && (stored == GGUF_INT32 || stored == GGUF_U32);
    case ARCH_KEY_FLOATS:
        return is_list && stored == GGUF_FLOAT32;
    case ARCH_KEY_TEXTS:
        return is_list && stored == GGUF_STRING;
    case ARCH_KEY_NUMBER:
        return !is_list && stored != GGUF_BOOL && stored != GGUF_STRING;
    case ARCH_KEY_UNKNOWN:
        break;
    }
    return true;
}
