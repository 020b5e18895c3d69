#include "forward/graph/bounds.h"

#include <string.h>

#include "arch/arch.h"
#include "forward/graph/keys.h"
#include "gguf/model.h"

typedef struct bounds_row {
    const char *key;
    double least, most;
    bool is_integer;
} bounds_row;

/* A 0 within the bounds means that the model has no such factor, or nothing to clamp to. */
static const bounds_row bounds_rows[] = {
    {"block_count", 1, INT32_MAX, true},
    {"context_length", 1, INT32_MAX, true},
    {"embedding_length", 1, INT32_MAX, true},
    {"n_deepstack_layers", 0, 64, true}, /* published models have 3 */
    {"altup.num_inputs", 4, 4, true},    /* as many as llama.cpp has room for */
    {"altup.active_idx", 0, 3, true},
    {"expert_gating_func", 0, 4, true},
    {"pooling_type", 0, 4, true},
    {"attention.layer_norm_epsilon", 0, 1, false},
    {"attention.layer_norm_rms_epsilon", 0, 1, false},
    {"attention.group_norm_epsilon", 0, 1, false},
    {"vision.attention.layer_norm_epsilon", 0, 1, false},
    {"audio.attention.layer_norm_epsilon", 0, 1, false},
    {"hyper_connection.epsilon", 0, 1, false},
    {"rope.freq_base", 1, 1e30, false},
    {"rope.freq_base_swa", 1, 1e30, false},
    {"rope.scaling.factor", 1e-3, 1e6, false},
    {"rope.scaling.alpha", 1e-3, 1e9, false},
    {"rope.scaling.attn_factor", 1e-6, 1e6, false},
    {"rope.scaling.yarn_attn_factor", 1e-6, 1e6, false},
    {"rope.scaling.yarn_beta_fast", 0, 1e6, false},
    {"rope.scaling.yarn_beta_slow", 0, 1e6, false},
    {"attention.value_scale", 0, 1e6, false},
    {"embedding_scale", 0, 1e6, false},
    {"residual_scale", 0, 1e6, false},
    {"logit_scale", 0, 1e6, false},
    {"expert_weights_scale", 0, 1e6, false},
    {"hyper_connection.magnitude", 0, 1e6, false},
    {"attn_logit_softcapping", 0, 1e6, false},
    {"final_logit_softcapping", 0, 1e6, false},
    {"router_logit_softcapping", 0, 1e6, false},
    {"swiglu_clamp_exp", 0, 1e6, false},
    {"swiglu_clamp_shexp", 0, 1e6, false},
};

/* Keys that no reader takes a list for. */
static const char *const scalars[] = {"block_count",
                                      "context_length",
                                      "embedding_length",
                                      "vocab_size",
                                      "attention.key_length",
                                      "attention.value_length",
                                      "attention.layer_norm_epsilon",
                                      "attention.layer_norm_rms_epsilon",
                                      "attention.causal",
                                      "attention.scale",
                                      "attention.q_lora_rank",
                                      "attention.kv_lora_rank",
                                      "rope.dimension_count",
                                      "rope.freq_base",
                                      "rope.freq_base_swa",
                                      "rope.scaling.type",
                                      "rope.scaling.factor",
                                      "rope.scaling.attn_factor",
                                      "rope.scaling.original_context_length",
                                      "expert_count",
                                      "expert_gating_func",
                                      "expert_weights_norm",
                                      "expert_weights_scale",
                                      "leading_dense_block_count",
                                      "nextn_predict_layers",
                                      "pooling_type",
                                      "logit_scale",
                                      "residual_scale",
                                      "embedding_scale",
                                      "attn_logit_softcapping",
                                      "final_logit_softcapping",
                                      "ssm.conv_kernel",
                                      "ssm.inner_size",
                                      "ssm.state_size",
                                      "ssm.time_step_rank",
                                      "ssm.group_count"};
/* Lists with one value for each layer: of another length llama.cpp refuses them. */
static const char *const per_layer[] = {"attention.head_count",
                                        "attention.head_count_kv",
                                        "feed_forward_length",
                                        "swiglu_clamp_exp",
                                        "swiglu_clamp_shexp",
                                        ":xielu.alpha_n",
                                        ":xielu.alpha_p",
                                        ":xielu.beta",
                                        ":xielu.eps"};

static bool key_is_scalar(const char *own) {
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        if (strcmp(own, scalars[i]) == 0) return true;
    return false;
}

/* Published files of gemma3n have its number of layers that share keys as a float; readers take a fixed one. */
static bool key_is_ignored(const char *own, const char *arch) {
    const architecture *a = arch_named(arch);
    return a && a->graph.own_kv_layers && !strcmp(own, "attention.shared_kv_layers");
}

/* Whether a value has the type in which llama.cpp reads its key. */
static bool check_type(const model_kv *kv, const char *arch, const char *file, gq_error *e) {
    size_t n = strlen(arch);
    const char *own = strncmp(kv->key, arch, n) == 0 && kv->key[n] == '.' ? kv->key + n + 1 : NULL;
    arch_key_type type =
        own || strncmp(kv->key, "tokenizer.", 10) == 0 ? arch_type_of_key(kv->key) : ARCH_KEY_UNKNOWN;
    bool may_be_list = own && kv->type == GGUF_ARRAY && !key_is_scalar(own);
    return may_be_list || (own && key_is_ignored(own, arch)) || arch_key_type_is(type, kv->type) ||
           gq_fail(e, "%s: %s has type %s, but llama.cpp reads it as a %s", file, kv->key,
                   gguf_value_name(kv->type), arch_key_type_name(type));
}

static bool check_types(const model_facts *facts, const char *file, gq_error *e) {
    bool ok = true;
    for (uint64_t i = 0; ok && i < facts->n_kv; i++)
        ok = check_type(model_facts_find(facts, facts->kv[i].key), facts->arch, file, e);
    return ok;
}

/* Numbers of layers, of which there are no more than all. */
static const char *const layer_counts[] = {"leading_dense_block_count", "attention.shared_kv_layers"};

bool bounds_check(const model_facts *facts, const char *file, gq_error *e) {
    key_reader r = {.facts = *facts, .file = file, .e = e, .ok = true};
    if (!check_types(facts, file, e)) return false;
    for (size_t k = 0; k < sizeof bounds_rows / sizeof *bounds_rows; k++) {
        const bounds_row *row = &bounds_rows[k];
        key_list l = key_list_of(&r, row->key);
        uint64_t n = 1;
        if (!l.kv) continue;
        double value; /* of another type it is the row's to refuse, where one reads it */
        if (!key_list_counts(&l, &n)) n = row->is_integer || model_kv_float(l.kv, &value);
        for (uint64_t i = 0; i < n && r.ok; i++) {
            if (row->is_integer)
                key_number_at(&r, &l, i, 0, (uint64_t)row->least, (uint64_t)row->most);
            else
                key_float_at(&r, &l, i, 0, row->least, row->most);
        }
    }
    int64_t blocks;
    for (size_t k = 0; k < sizeof layer_counts / sizeof *layer_counts; k++)
        if (r.ok && !key_is_ignored(layer_counts[k], facts->arch) && key_there(&r, layer_counts[k]) &&
            model_fact_int(facts, "block_count", &blocks))
            key_number(&r, layer_counts[k], 0, 0, (uint64_t)blocks);
    for (size_t k = 0; r.ok && k < sizeof per_layer / sizeof *per_layer; k++) {
        key_list l = key_list_of(&r, per_layer[k]);
        uint64_t n;
        if (key_list_counts(&l, &n) && model_fact_int(facts, "block_count", &blocks) && n != (uint64_t)blocks)
            key_fail(&r, l.name, "is an array of %llu, expected one value for each of %lld layers",
                     (unsigned long long)n, (long long)blocks);
    }
    return r.ok;
}
