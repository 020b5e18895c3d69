#include "forward/graph/bounds.h"

#include "forward/graph/keys.h"
#include "gguf/model.h"

typedef struct bounds_row {
    const char *key;
    double least, most;
    bool is_integer;
} bounds_row;

/* Where 0 is within the bounds, it says that there is no such factor, or nothing to clamp to. */
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

/* Numbers of layers, of which there are no more than all. */
static const char *const layer_counts[] = {"leading_dense_block_count", "attention.shared_kv_layers"};

bool bounds_check(const model_facts *facts, const char *file, gq_error *e) {
    key_reader r = {.facts = *facts, .file = file, .e = e, .ok = true};
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
        if (r.ok && key_there(&r, layer_counts[k]) && model_fact_int(facts, "block_count", &blocks))
            key_number(&r, layer_counts[k], 0, 0, (uint64_t)blocks);
    return r.ok;
}
