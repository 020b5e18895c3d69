
#include <math.h>

#include "forward/graph/attention/attention.h"
#include "forward/graph/recurrent/recurrent.h"

static attention_numbers *attention_of(const forward_model *m) { return model_numbers(m, &mixer_attention); }

/* ---- scores and logits ---- */

/* The row's scale of scores, in place of the sublayer's own. */
static void own_set_score_scale(forward_model *m) {
    score_scale by = m->arch->graph.score_scale;
    attention_numbers *n =
        model_numbers(m, arch_has_sublayer(m->arch, MIXER_LATENT) ? &mixer_latent : &mixer_attention);
    if (by == SCORES_BY_HEAD || !n) return;
    const double head = (double)n->head, scales[] = {[SCORES_ONE] = 1,
                                                     [SCORES_UNCHANGED] = 1 / sqrt(head),
                                                     [SCORES_BY_SQUARE] = 1 / head,
                                                     [SCORES_BY_VALUE] = 1 / sqrt((double)n->value)};
    if (by != SCORES_BY_WIDTH)
        n->score_scale = (float)scales[by];
    else if (arch_is_by_number(m->arch, BY_NUMBER_SCORES, m->sizes.layers)) {
        /* The largest models; the share of a head is rounded down, as llama.cpp does. */
        size_t share = m->sizes.width / ((const attention_layer *)m->layers[0].mixer.numbers)->heads;
        n->score_scale = (float)(1 / sqrt((double)share));
    }
}

static void own_read_score_cap(forward_model *m, key_reader *r) {
    attention_of(m)->score_cap =
        (float)key_float(r, "attn_logit_softcapping", (double)m->arch->graph.score_cap, 0, 1e6);
}

static void own_read_final_cap(forward_model *m, key_reader *r) {
    m->final_cap = (float)key_float(r, "final_logit_softcapping", (double)m->arch->graph.final_cap, 0, 1e6);
}

/* ---- scales of hidden states between layers ---- */

/* The numbers stand for keys that are absent. Logits are divided by the last. */
static void own_read_scales(forward_model *m, key_reader *r, double embedding, double residual,
                            double logits) {
    m->embedding_scale = (float)key_scale(r, "embedding_scale", embedding);
    m->residual_scale = (float)key_scale(r, "residual_scale", residual);
    m->sizes.logit_factor = (float)(1 / key_scale(r, "logit_scale", logits));
}

static void own_read_scales_granite(forward_model *m, key_reader *r) {
    double scores = key_float(r, "attention.scale", 0, 0, 1e6);
    if (scores > 0) attention_of(m)->score_scale = (float)scores;
    key_float_needed(r, "logit_scale", -1e6, 1e6);
    own_read_scales(m, r, 1, 1, 1);
}

static void own_read_scales_depth(forward_model *m, key_reader *r) {
    own_read_scales(m, r, 12, 1.4 / sqrt((double)m->sizes.layers), 256 / (double)m->sizes.width);
}

static void own_set_scales_depth(forward_model *m, key_reader *) {
    m->embedding_scale = 12, m->residual_scale = (float)(1.4 / sqrt((double)m->sizes.layers));
    m->final_scale = (float)(256 / (double)m->sizes.width);
}

/* Defaults are those of the model that was published first. */
static void own_read_scales_output(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    m->embedding_scale = (float)key_float(r, "embedding_scale", 78.38367176906169, -1e6, 1e6);
    m->sizes.logit_factor = (float)key_float(r, "logit_scale", 0.5773502691896257, -1e6, 1e6);
    n->score_scale = (float)key_float(r, "attention.output_scale", 0.08838834764831845, 0, 1e6);
    n->rope.beta_fast = 8;
    n->rope.yarn_share = key_float(r, "rope.scaling.yarn_ext_factor", 1, -1e3, 1e3);
}

static void own_read_embedding_scale(forward_model *m, key_reader *r) {
    m->embedding_scale = (float)key_scale(r, "embedding_scale", 1);
}

static void own_read_scale_inputs(forward_model *m, key_reader *r) {
    m->input_scale = (float)key_float_needed(r, "residual_scale", -1e6, 1e6);
}

static void own_read_value_scale(forward_model *m, key_reader *r) {
    attention_of(m)->output_scale = (float)key_scale(r, "attention.value_scale", 1);
}

/* ---- experts ---- */

/* A key says once more whether routed layers have a shared expert. Converters write it for models without
 * routed layers, too. */
static void own_check_shared_length(forward_model *m, key_reader *r) {
    const char *key = "expert_shared_feed_forward_length";
    int64_t length = 0;
    model_fact_int(&r->facts, key, &length);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        bool is_there = tensors_layer_has(m, i, WEIGHT_FFN_UP_SHEXP);
        if ((length > 0) != is_there && (is_there || tensors_layer_has(m, i, WEIGHT_FFN_DOWN_EXPS)))
            key_fail(r, key, "is %lld, but there is %s tensor %s", (long long)length, is_there ? "a" : "no",
                     tensors_layer_name(m, i, WEIGHT_FFN_UP_SHEXP, ".weight").text);
    }
}

/* ---- rope ---- */

static void own_read_neox_sections(forward_model *m, key_reader *r) {
    attention_of(m)->rope.neox = key_number(r, "rope.dimension_sections", 0, 0, MODEL_MOST) > 0;
}

static void own_read_rope_alpha(forward_model *m, key_reader *r) {
    attention_numbers *n = attention_of(m);
    double alpha = key_float(r, "rope.scaling.alpha", 0, 0, 1e6), head = (double)n->head;
    if (alpha <= 0 || n->head <= 2) return;
    for (int local = 0; local < 2; local++) n->rope.angles[local].base *= pow(alpha, head / (head - 2));
}

static void own_read_yarn_betas(forward_model *m, key_reader *r) {
    rope_numbers *n = &attention_of(m)->rope;
    n->beta_fast = key_float(r, "rope.scaling.yarn_beta_fast", n->beta_fast, 1e-3, 1e6);
    n->beta_slow = key_float(r, "rope.scaling.yarn_beta_slow", n->beta_slow, 1e-3, 1e6);
}

static void own_read_sections(forward_model *m, key_reader *r) {
    key_list l = key_list_of(r, "rope.dimension_sections");
    if (!l.kv || !key_number_at(r, &l, 0, 0, 0, MODEL_MOST) || !key_number_at(r, &l, 1, 0, 0, MODEL_MOST))
        return;
    rope_read_sections(&attention_of(m)->rope, r, SECTIONS_IN_ORDER, attention_of(m)->head);
}

/* Positions are rope's in models of the size of the smaller one, and linear biases in the larger one. */
static void own_set_positions(forward_model *m, key_reader *) {
    bool has_rope = arch_is_by_number(m->arch, BY_NUMBER_ROPE, m->sizes.layers);
    if (!arch_is_by_number(m->arch, BY_NUMBER_ALIBI, m->sizes.layers)) attention_of(m)->alibi = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = m->layers[i].mixer.numbers;
        l->has_rope = has_rope;
    }
}

/* Layers without rope see all tokens, and their queries grow with the position. The model with 128 experts
 * has no norms of q and k. */
static void own_set_growing_queries(forward_model *m, key_reader *r) {
    rope_numbers *n = &attention_of(m)->rope;
    uint64_t experts = key_number(r, "expert_count", 0, 0, MODEL_MOST);
    n->temperature = 0.1, n->temperature_length = 8192, n->temperature_first = 1;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = m->layers[i].mixer.numbers;
        l->norms_qk = l->has_rope && experts != 128;
    }
}

/* Layers without a window rotate half of what the key says. */
static void own_halve_rotated(forward_model *m, key_reader *r) {
    rope_numbers *n = &attention_of(m)->rope;
    size_t *rotated = &n->angles[0].rotated;
    *rotated /= 2;
    if (*rotated % 2 != 0)
        key_fail(r, "rope.dimension_count", "is %zu, expected a multiple of 4", n->angles[1].rotated);
}

/* Limits of the inputs of the experts' last matrix and of that of the shared expert and dense layers. */
static void own_read_gate_limits(forward_model *m, key_reader *r) {
    key_list experts = key_list_of(r, "swiglu_clamp_exp"), others = key_list_of(r, "swiglu_clamp_shexp");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        layer_spec *l = &m->layers[i];
        l->experts_act.limit = (float)key_float_at(r, &experts, i, 0, 0, 1e9);
        l->act.limit = (float)key_float_at(r, &others, i, 0, 0, 1e9);
    }
}

/* The same of experts alone, whose gates have their limit before the activation. */
static void own_read_input_limits(forward_model *m, key_reader *r) {
    key_list experts = key_list_of(r, "swiglu_clamp_exp");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        activation_rule *act = &m->layers[i].experts_act;
        act->limit = (float)key_float_at(r, &experts, i, 0, 0, 1e9), act->limits_input = true;
    }
}

/* The same of the shared expert, too, which has the experts' limits where its own are missing. */
static void own_read_input_limits_all(forward_model *m, key_reader *r) {
    key_list shared = key_list_of(r, "swiglu_clamp_shexp");
    own_read_input_limits(m, r);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        layer_spec *l = &m->layers[i];
        l->act.limit = (float)key_float_at(r, &shared, i, (double)l->experts_act.limit, 0, 1e9);
        l->act.limits_input = true;
    }
}

/* ---- loops ---- */

static void own_read_halving(forward_model *m, key_reader *r) {
    size_t every = key_number(r, "rescale_every_n_layers", 0, 0, MODEL_MOST);
    for (size_t i = 0; every && i < m->sizes.layers; i++)
        if ((i + 1) % every == 0) m->layers[i].end_scale = .5F;
}

static void own_read_loops(forward_model *m, key_reader *r) {
    enum { MOST_LOOPS = 64 };
    m->loops = key_number(r, "num_loops", 1, 1, MOST_LOOPS);
    m->norms_loops = !key_bool(r, "skip_loop_final_norm", false);
}

/* ---- KDA ---- */

static void kda_read_bound(const forward_model *m, key_reader *r) {
    kda_numbers *n = model_numbers(m, &mixer_kda);
    n->is_flat = true;
    n->has_bound = key_there(r, "kda.gate_lower_bound");
    n->bound = (float)key_float(r, "kda.gate_lower_bound", 0, -1e6, 1e6);
}

static void own_read_kda_bound(forward_model *m, key_reader *r) {
    kda_numbers *n = model_numbers(m, &mixer_kda);
    if (!n) return; /* an MTP layer */
    kda_read_bound(m, r);
    n->unit_eps = 1e-6f;
}

static void own_read_kda_flat(forward_model *m, key_reader *r) {
    double beta = key_float_needed(r, "activation.situ_beta", 1e-6, 1e6);
    double linear = key_float_needed(r, "activation.situ_linear_beta", 0, 1e6);
    kda_read_bound(m, r);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        activation_rule rule = {.act = ACT_SITU, .positive = (float)beta, .linear = (float)linear};
        m->layers[i].act = m->layers[i].experts_act = rule;
    }
}

static void own_read_kda_positive(forward_model *m, key_reader *r) {
    kda_numbers *n = model_numbers(m, &mixer_kda);
    if (!n) return; /* an MTP layer */
    n->is_positive = n->has_bound = true;
    n->bound = (float)key_float_needed(r, "kda.gate_lower_bound", -1e6, 1e6);
}

/* ---- sublayers of a layer ---- */

static float softplus(double x) { return (float)(x > 20 ? x : log1p(exp(x))); }

static void own_read_xielu(forward_model *m, key_reader *r) {
    static const char *const names[] = {":xielu.alpha_p", ":xielu.alpha_n", ":xielu.beta", ":xielu.eps"};
    key_list lists[4];
    double values[4];
    for (int k = 0; k < 4; k++) lists[k] = key_list_needed(r, names[k]);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        activation_rule *act = &m->layers[i].act;
        for (int k = 0; k < 4; k++) values[k] = key_float_at(r, &lists[k], i, 0, -1e3, 1e3);
        act->positive = softplus(values[0]), act->linear = (float)values[2], act->eps = (float)values[3];
        act->negative = (float)values[2] + softplus(values[1]);
    }
}

static void own_set_ungated_relu(forward_model *m, key_reader *) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (m->layers[i].ffn.sublayer && m->layers[i].ffn.sublayer->kind == &ffn_plain)
            m->layers[i].act.act = ACT_RELU;
}

static void own_read_hidden_activation(forward_model *m, key_reader *r) {
    static const struct {
        const char *name;
        activation act;
    } known[] = {{"gelu", ACT_GELU},
                 {"geglu", ACT_GELU},
                 {"silu", ACT_SILU},
                 {"swish", ACT_SILU},
                 {"swiglu", ACT_SILU}};
    const char *names[sizeof known / sizeof *known];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) names[i] = known[i].name;
    activation act = known[key_choice(r, "hidden_activation", names, sizeof known / sizeof *known)].act;
    for (size_t i = 0; i < m->sizes.layers; i++) m->layers[i].act.act = act;
}

static void own_read_parallel(forward_model *m, key_reader *r) {
    if (!key_there(r, "use_parallel_residual"))
        key_number_needed(r, "use_parallel_residual", 0, 1);
    else
        m->parallel_own = key_bool(r, "use_parallel_residual", true);
}

static void own_read_swin(forward_model *m, key_reader *r) { m->is_swin = key_bool(r, "swin_norm", false); }

static void own_check_all_kv_heads(forward_model *m, key_reader *r) {
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        const attention_layer *l = m->layers[i].mixer.numbers;
        if (l->kv_heads != l->heads)
            key_fail(r, "attention.head_count_kv", "is %zu, expected as many as heads: %zu", l->kv_heads,
                     l->heads);
    }
}

void own_keys_read(forward_model *m, key_reader *r) {
#define READER(member, function) [member] = (function),
    static void (*const readers[ARCH_OWN_LIMIT])(forward_model * m, key_reader * r) = {ARCH_OWN_KEYS(READER)};
#undef READER
    m->final_cap = m->arch->graph.final_cap;
    own_set_score_scale(m);
    for (size_t i = 0; i < ARCH_OWN_MOST && m->arch->graph.own[i] != OWN_NONE; i++)
        readers[m->arch->graph.own[i]](m, r);
}
