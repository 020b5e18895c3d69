#include "graph/own_keys.h"

#include <math.h>

#include "graph/attention.h"
#include "graph/kda.h"
#include "graph/rope_keys.h"

static attention_numbers *attention_of(const forward_model *m) { return model_numbers(m, &mixer_attention); }
static attention_numbers *latent_of(const forward_model *m) { return model_numbers(m, &mixer_latent); }

static size_t heads_of_layer(const forward_model *m, size_t i) {
    const attention_layer *l = m->layers[i].mixer.numbers;
    return l->heads;
}

/* ---- gemma ---- */

/* The largest models scale scores by the width that a head has of the state, and not by its own size. */
static void scale_scores_by_width(forward_model *m, size_t blocks) {
    if (m->sizes.layers != blocks) return;
    size_t share = m->sizes.width / heads_of_layer(m, 0); /* rounded down, as llama.cpp does */
    attention_of(m)->score_scale = (float)(1 / sqrt((double)share));
}

static void read_final_cap(forward_model *m, key_reader *r, double absent) {
    m->final_cap = (float)key_float(r, "final_logit_softcapping", absent, 0, 1e6);
}

void own_keys_gemma2(forward_model *m, key_reader *r) {
    attention_of(m)->score_cap = (float)key_float(r, "attn_logit_softcapping", 50, 0, 1e6);
    read_final_cap(m, r, 30);
    scale_scores_by_width(m, 46);
}

void own_keys_gemma3(forward_model *m, key_reader *r) {
    read_final_cap(m, r, 0);
    scale_scores_by_width(m, 62);
}

void own_keys_gemma3n(forward_model *m, key_reader *r) {
    (void)r;
    m->final_cap = 30;
    attention_of(m)->score_scale = 1;
}

void own_keys_gemma4(forward_model *m, key_reader *r) {
    read_final_cap(m, r, 30);
    attention_of(m)->score_scale = 1;
}

/* ---- scales of what flows between layers ---- */

/* The numbers stand for keys that are absent. Logits are divided by the last. */
static void own_read_scales(forward_model *m, key_reader *r, double embedding, double residual,
                            double logits) {
    m->embedding_scale = (float)key_scale(r, "embedding_scale", embedding);
    m->residual_scale = (float)key_scale(r, "residual_scale", residual);
    m->sizes.logit_factor = (float)(1 / key_scale(r, "logit_scale", logits));
}

void own_keys_granite(forward_model *m, key_reader *r) {
    double scores = key_float(r, "attention.scale", 0, 0, 1e6);
    if (scores > 0) attention_of(m)->score_scale = (float)scores;
    key_float_needed(r, "logit_scale", -1e6, 1e6);
    own_read_scales(m, r, 1, 1, 1);
}

void own_keys_minicpm(forward_model *m, key_reader *r) {
    own_read_scales(m, r, 12, 1.4 / sqrt((double)m->sizes.layers), 256 / (double)m->sizes.width);
}

/* Defaults are those of the model that was published first. */
void own_keys_grok(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    m->embedding_scale = (float)key_float(r, "embedding_scale", 78.38367176906169, -1e6, 1e6);
    m->sizes.logit_factor = (float)key_float(r, "logit_scale", 0.5773502691896257, -1e6, 1e6);
    n->score_scale = (float)key_float(r, "attention.output_scale", 0.08838834764831845, 0, 1e6);
    n->score_cap = (float)key_float(r, "attn_logit_softcapping", 30, 0, 1e6);
    read_final_cap(m, r, 0);
    n->rope.beta_fast = 8;
    n->rope.yarn_share = key_float(r, "rope.scaling.yarn_ext_factor", 1, -1e3, 1e3);
    own_keys_mistral3(m, r);
}

/* ---- scales of scores ---- */

/* Yarn does not change them. */
void own_keys_plm(forward_model *m, key_reader *r) {
    attention_numbers *n = latent_of(m);
    (void)r;
    n->score_scale = (float)(1 / sqrt((double)n->head));
}

void own_keys_minicpm3(forward_model *m, key_reader *r) {
    own_keys_plm(m, r);
    m->embedding_scale = 12, m->residual_scale = (float)(1.4 / sqrt((double)m->sizes.layers));
    m->final_scale = (float)(256 / (double)m->sizes.width);
}

void own_keys_jais(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    (void)r;
    n->score_scale = (float)(1 / (double)n->head);
}

void own_keys_mimo2(forward_model *m, key_reader *r) {
    attention_of(m)->output_scale = (float)key_scale(r, "attention.value_scale", 1);
}

void own_keys_muse_glimmer(forward_model *m, key_reader *r) { read_final_cap(m, r, 30); }

/* A key says once more whether routed layers have a shared expert. Converters write it for models without
 * routed layers, too. */
void own_keys_granitemoe(forward_model *m, key_reader *r) {
    const char *key = "expert_shared_feed_forward_length";
    int64_t length = 0;
    own_keys_granite(m, r);
    model_fact_int(&r->facts, key, &length);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        bool is_there = tensors_layer_has(m, i, WEIGHT_FFN_UP_SHEXP);
        if ((length > 0) != is_there && (is_there || tensors_layer_has(m, i, WEIGHT_FFN_DOWN_EXPS)))
            key_fail(r, key, "is %lld, but there is %s tensor %s", (long long)length, is_there ? "a" : "no",
                     tensors_layer_name(i, WEIGHT_FFN_UP_SHEXP, ".weight"));
    }
}

/* ---- rope ---- */

void own_keys_glm4(forward_model *m, key_reader *r) {
    attention_of(m)->rope.neox = key_number(r, "rope.dimension_sections", 0, 0, MODEL_MOST) > 0;
}

void own_keys_hunyuan_dense(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    double alpha = key_float(r, "rope.scaling.alpha", 0, 0, 1e6), head = (double)n->head;
    if (alpha <= 0 || n->head <= 2) return;
    for (int local = 0; local < 2; local++) n->rope.angles[local].base *= pow(alpha, head / (head - 2));
}

void own_keys_mistral3(forward_model *m, key_reader *r) {
    rope_numbers *n = &attention_of(m)->rope;
    n->beta_fast = key_float(r, "rope.scaling.yarn_beta_fast", n->beta_fast, 1e-3, 1e6);
    n->beta_slow = key_float(r, "rope.scaling.yarn_beta_slow", n->beta_slow, 1e-3, 1e6);
}

void own_keys_hunyuan_vl(forward_model *m, key_reader *r) {
    key_list l = key_list_of(r, "rope.dimension_sections");
    own_keys_hunyuan_dense(m, r);
    if (!l.kv || !key_number_at(r, &l, 0, 0, 0, MODEL_MOST) || !key_number_at(r, &l, 1, 0, 0, MODEL_MOST))
        return;
    rope_read_sections(&attention_of(m)->rope, r, SECTIONS_IN_ORDER);
}

/* Positions are rope's in models of the size of the smaller one, and linear biases in the larger one. */
void own_keys_baichuan(forward_model *m, key_reader *r) {
    (void)r;
    if (m->sizes.layers == 40) attention_of(m)->alibi = 8;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = m->layers[i].mixer.numbers;
        l->has_rope = m->sizes.layers == 32;
    }
}

/* Layers without rope see all tokens, and their queries grow with the position. The model with 128 experts
 * has no norms of q and k. */
void own_keys_llama4(forward_model *m, key_reader *r) {
    rope_numbers *n = &attention_of(m)->rope;
    uint64_t experts = key_number(r, "expert_count", 0, 0, MODEL_MOST);
    n->temperature = 0.1, n->temperature_length = 8192, n->temperature_first = 1;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = m->layers[i].mixer.numbers;
        l->norms_qk = l->has_rope && experts != 128;
    }
}

/* Layers without a window turn half of what the key says. */
static void halve_turned(rope_numbers *n, key_reader *r) {
    size_t *turned = &n->angles[0].turned;
    *turned /= 2;
    if (*turned % 2 != 0)
        key_fail(r, "rope.dimension_count", "is %zu, expected a multiple of 4", n->angles[1].turned);
}

/* Limits of what flows into the experts' last matrix, and into that of the shared expert and dense layers. */
static void read_gate_limits(forward_model *m, key_reader *r) {
    key_list experts = key_list_of(r, "swiglu_clamp_exp"), others = key_list_of(r, "swiglu_clamp_shexp");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        layer_plan *l = &m->layers[i];
        l->experts_act.limit = (float)key_float_at(r, &experts, i, 0, 0, 1e9);
        l->act.limit = (float)key_float_at(r, &others, i, 0, 0, 1e9);
    }
}

void own_keys_step35(forward_model *m, key_reader *r) {
    halve_turned(&attention_of(m)->rope, r);
    read_gate_limits(m, r);
}

/* Scores are scaled by the size of values, not of keys. */
void own_keys_plamo2(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    (void)r;
    n->score_scale = (float)(1 / sqrt((double)n->value));
}

/* ---- loops ---- */

void own_keys_nanbeige(forward_model *m, key_reader *r) {
    enum { MOST_LOOPS = 64 };
    m->loops = key_number(r, "num_loops", 1, 1, MOST_LOOPS);
    m->norms_loops = !key_bool(r, "skip_loop_final_norm", false);
}

/* ---- KDA ---- */

void own_keys_kimi_k3(forward_model *m, key_reader *r) {
    kda_numbers *n = model_numbers(m, &mixer_kda);
    double beta = key_float_needed(r, "activation.situ_beta", 1e-6, 1e6);
    double linear = key_float_needed(r, "activation.situ_linear_beta", 0, 1e6);
    own_keys_plm(m, r);
    n->is_flat = true;
    n->has_bound = key_there(r, "kda.gate_lower_bound");
    n->bound = (float)key_float(r, "kda.gate_lower_bound", 0, -1e6, 1e6);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        activation_rule rule = {.act = ACT_SITU, .positive = (float)beta, .linear = (float)linear};
        m->layers[i].act = m->layers[i].experts_act = rule;
    }
}

void own_keys_bailingmoe3(forward_model *m, key_reader *r) {
    kda_numbers *n = model_numbers(m, &mixer_kda);
    own_keys_plm(m, r);
    read_gate_limits(m, r);
    n->is_positive = n->has_bound = true;
    n->bound = (float)key_float_needed(r, "kda.gate_lower_bound", -1e6, 1e6);
}

/* ---- parts of a layer ---- */

static float softplus(double x) { return (float)(x > 20 ? x : log1p(exp(x))); }

void own_keys_apertus(forward_model *m, key_reader *r) {
    static const char *const names[] = {":xielu.alpha_p", ":xielu.alpha_n", ":xielu.beta", ":xielu.eps"};
    key_list lists[4];
    double values[4];
    for (int k = 0; k < 4; k++) {
        lists[k] = key_list_of(r, names[k]);
        if (!lists[k].kv) key_float_needed(r, names[k], -1e3, 1e3);
    }
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        activation_rule *act = &m->layers[i].act;
        for (int k = 0; k < 4; k++) values[k] = key_float_at(r, &lists[k], i, 0, -1e3, 1e3);
        act->positive = softplus(values[0]), act->linear = (float)values[2], act->eps = (float)values[3];
        act->negative = (float)values[2] + softplus(values[1]);
    }
}

void own_keys_gptneox(forward_model *m, key_reader *r) {
    if (!key_there(r, "use_parallel_residual"))
        key_number_needed(r, "use_parallel_residual", 0, 1);
    else
        m->parallel_own = key_bool(r, "use_parallel_residual", true);
}

void own_keys_olmoe(forward_model *m, key_reader *r) {
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        const attention_layer *l = m->layers[i].mixer.numbers;
        if (l->kv_heads != l->heads)
            key_fail(r, "attention.head_count_kv", "is %zu, expected as many as heads: %zu", l->kv_heads,
                     l->heads);
    }
}
