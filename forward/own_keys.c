#include "forward/own_keys.h"

#include <math.h>

#include "forward/attention.h"

static attention_numbers *attention_of(const forward_model *m) { return model_numbers(m, &mixer_attention); }

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

/* A key says once more whether there is a shared expert. */
void own_keys_granitemoe(forward_model *m, key_reader *r) {
    const char *key = "expert_shared_feed_forward_length";
    int64_t length = 0;
    own_keys_granite(m, r);
    model_fact_int(&r->facts, key, &length);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        bool is_there = tensors_layer_has(m, i, WEIGHT_FFN_UP_SHEXP);
        if ((length > 0) != is_there)
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

/* ---- parts of a layer ---- */

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
