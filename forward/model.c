/* The numbers of a model, from its metadata. */
#include "forward/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/keys.h"

enum { MOST = INT32_MAX }; /* of any count: so products of two, and sums of them, fit 64 bits */

/* ---- attention ---- */

static void read_heads(forward_model *m, key_reader *r) {
    const architecture *a = m->arch;
    key_list heads = key_list_of(r, "attention.head_count"), kv = key_list_of(r, "attention.head_count_kv");
    uint64_t first = key_number_needed(r, heads.name, 1, MOST);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        layer_plan *l = &m->layers[i];
        l->heads = key_number_at(r, &heads, i, 1, 1, MOST);
        l->kv_heads = key_number_at(r, &kv, i, l->heads, 1, l->heads);
        if (a->equal_heads && l->kv_heads != l->heads)
            key_fail(r, "attention.head_count_kv", "is %zu, expected as many as heads: %zu", l->kv_heads,
                     l->heads);
    }
    uint64_t even = m->sizes.width / (first ? first : 1);
    m->head = key_number(r, "attention.key_length", even, 1, MOST);
    m->value = key_number(r, "attention.value_length", even, 1, MOST);
    if (a->latent) {
        m->head = key_number(r, "attention.key_length_mla", m->head, 2, MOST);
        m->value = key_number(r, "attention.value_length_mla", m->value, 1, MOST);
        m->latent = key_number_needed(r, "attention.kv_lora_rank", 1, MOST);
        return;
    }
    if (!a->free_head && m->head != even)
        key_fail(r, "attention.key_length", "is %zu, expected embedding_length / attention.head_count: %llu",
                 m->head, (unsigned long long)even);
    if (m->value != m->head)
        key_fail(r, "attention.value_length", "is %zu, expected attention.key_length: %zu", m->value,
                 m->head);
    if (m->head == 0) key_fail(r, "attention.head_count", "is more than embedding_length");
}

static void read_windows(forward_model *m, key_reader *r) {
    const architecture *a = m->arch;
    size_t layers = m->sizes.layers;
    key_list pattern = key_list_of(r, "attention.sliding_window_pattern");
    const char *key = "attention.sliding_window";
    if (a->window == WINDOW_REQUIRED) {
        m->window = key_number_needed(r, key, 0, MOST);
    } else if (a->window == WINDOW_OPTIONAL) {
        m->window = key_number(r, key, a->window_default, 0, MOST);
    } else if (a->window == WINDOW_64_BLOCKS && layers == 64) {
        m->window = key_number(r, key, a->window_default, 0, MOST);
        if (!m->window) m->window = a->window_default;
    }
    uint32_t type;
    uint64_t n;
    const uint8_t *elements;
    bool list = gguf_kv_array(pattern.kv, &type, &n, &elements);
    for (size_t i = 0; m->window && i < layers && r->ok; i++) {
        uint64_t p = key_number_at(r, &pattern, i, a->period_default, 0, list ? 1 : MOST);
        m->layers[i].local = list ? p != 0 : p == 0 || i % p < p - 1;
    }
}

static void read_score_scale(forward_model *m, key_reader *r, double log_factor, double log_multiplier) {
    const architecture *a = m->arch;
    double scale = 1 / sqrt((double)m->head);
    if (a->attention_scale) {
        double given = key_float(r, "attention.scale", 0, 0, 1e6);
        if (given > 0) scale = given;
    }
    size_t heads = m->layers[0].heads;
    if (a->blocks_of_width_scale && a->blocks_of_width_scale == m->sizes.layers && heads) {
        size_t share = m->sizes.width / heads; /* rounded down, as the incumbent has it */
        scale = 1 / sqrt((double)share);
    }
    if (a->latent) {
        const rope_plan *p = &m->rope[0];
        double magnitude =
            p->magnitude * (p->yarn ? 1 : 1 + 0.1 * log_factor) * (1 + 0.1 * log_multiplier * log_factor);
        scale *= magnitude * magnitude;
    }
    m->score_scale = (float)scale;
    if (a->attention_cap)
        m->attention_cap = (float)key_float(r, "attn_logit_softcapping", a->attention_cap_default, 0, 1e6);
}

/* ---- rope ---- */

static void read_turned(forward_model *m, key_reader *r) {
    const architecture *a = m->arch;
    size_t most = a->latent ? m->head - 1 : m->head;
    m->turned = key_number(r, "rope.dimension_count", m->head, 2, most < 2 ? 2 : most);
    if (!a->rope_partial && m->turned != m->head)
        key_fail(r, "rope.dimension_count", "is %zu, expected the size of a head: %zu", m->turned, m->head);
    if (m->turned % 2 != 0 || m->turned > most)
        key_fail(r, "rope.dimension_count", "is %zu, expected an even number of at most %zu", m->turned,
                 most);
    m->neox = a->neox;
    if (a->sections) m->neox = key_number(r, "rope.dimension_sections", 0, 0, MOST) > 0;
}

/* 0: positions are not scaled. */
static double scaling_factor(key_reader *r) {
    const char *key = "rope.scaling.factor";
    double factor = key_float(r, key, 0, 0, 1e6);
    if (factor == 0) factor = key_float(r, key = "rope.scale_linear", 0, 0, 1e6);
    if (factor != 0 && factor < 1e-3) key_fail(r, key, "is %g, expected 0 or at least 0.001", factor);
    return factor;
}

static void read_local_rope(forward_model *m, key_reader *r, double log_factor) {
    rope_plan *p = &m->rope[1];
    switch (m->arch->local_rope) {
    case LOCAL_SAME:
        break;
    case LOCAL_BASE_SWA:
        p->base = key_float(r, "rope.freq_base_swa", p->base, 1, 1e30);
        break;
    case LOCAL_OWN: /* as the incumbent: of yarn only the division stays */
        if (p->yarn) p->magnitude /= 1 + 0.1 * log_factor;
        p->base = key_float(r, "rope.freq_base_swa", 10000, 1, 1e30);
        p->scale = 1, p->yarn = false;
        break;
    case LOCAL_PLAIN:
        *p = (rope_plan){.base = p->base, .scale = 1, .magnitude = 1};
        break;
    }
}

static void read_rope(forward_model *m, key_reader *r) {
    enum { LINEAR, NONE, YARN, LONGROPE };
    static const char *const types[] = {
        [LINEAR] = "linear", [NONE] = "none", [YARN] = "yarn", [LONGROPE] = "longrope"};
    const architecture *a = m->arch;
    rope_plan *p = &m->rope[0];
    read_turned(m, r);
    size_t type = key_choice(r, "rope.scaling.type", types, sizeof types / sizeof *types);
    double factor = scaling_factor(r), multiplier = 0;
    bool scaled = factor != 0 && type != NONE;
    double log_factor = scaled ? log(factor) : 0;
    p->scale = scaled ? 1 / factor : 1;
    p->yarn = type == YARN, m->longrope = type == LONGROPE;
    p->base = key_float(r, "rope.freq_base", 10000, 1, 1e30);
    if (a->rope_alpha) {
        double alpha = key_float(r, "rope.scaling.alpha", 0, 0, 1e6);
        if (alpha > 0 && m->head > 2) p->base *= pow(alpha, (double)m->head / (double)(m->head - 2));
    }
    if (a->log_multiplier != 0)
        multiplier = key_float(r, "rope.scaling.yarn_log_multiplier", 0, 0, 1e3) / a->log_multiplier;
    p->magnitude = key_float(r, "rope.scaling.attn_factor", 1, 0, 1e3);
    if (p->yarn && multiplier > 0) {
        double upper = a->latent && multiplier != 1 ? multiplier : 1;
        p->magnitude *= (1 + 0.1 * upper * log_factor) / (1 + 0.1 * multiplier * log_factor);
    } else if (p->yarn) {
        p->magnitude *= 1 + 0.1 * log_factor;
    }
    m->beta_fast = a->yarn_betas ? key_float(r, "rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6) : 32;
    m->beta_slow = a->yarn_betas ? key_float(r, "rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6) : 1;
    m->original_context =
        (double)key_number(r, "rope.scaling.original_context_length", m->sizes.trained, 1, MOST);
    if (a->temperature) m->temperature = key_float(r, "attention.temperature_scale", 0, -1e3, 1e3);
    if (m->temperature != 0)
        m->temperature_length = a->latent
                                    ? (double)key_number_needed(r, "attention.temperature_length", 1, MOST)
                                    : m->original_context;
    m->rope[1] = *p;
    read_local_rope(m, r, log_factor);
    read_score_scale(m, r, log_factor, multiplier);
}

static void choose_rope_layers(forward_model *m, key_reader *r) {
    bool finetuned = true;
    if (m->arch->no_rope == ROPE_IF_FINETUNED) finetuned = key_bool(r, "rope.scaling.finetuned", true);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        layer_plan *l = &m->layers[i];
        switch (m->arch->no_rope) {
        case ROPE_ALWAYS:
            l->rope = true;
            break;
        case ROPE_NOT_FOURTH:
            l->rope = (i + 1) % 4 != 0;
            break;
        case ROPE_IF_FINETUNED:
            l->rope = finetuned;
            break;
        case ROPE_LOCAL:
            l->rope = l->local;
            break;
        case ROPE_LOCAL_IF_ANY:
            l->rope = l->local || !m->window;
            break;
        }
    }
}

/* ---- the rest ---- */

/* 0 stands for 1. */
static double scale_key(key_reader *r, const char *name, double absent) {
    double scale = key_float(r, name, absent, -1e6, 1e6);
    return scale == 0 ? 1 : scale;
}

static void read_scales(forward_model *m, key_reader *r) {
    const architecture *a = m->arch;
    double width = (double)m->sizes.width, logits = 1;
    bool own = a->scale_defaults;
    m->embedding_scale = a->embedding_sqrt ? sqrtf((float)width) : 1;
    m->residual_scale = 1;
    if (a->scale_keys) {
        m->embedding_scale = (float)scale_key(r, "embedding_scale", own ? 12 : 1);
        m->residual_scale =
            (float)scale_key(r, "residual_scale", own ? 1.4 / sqrt((double)m->sizes.layers) : 1);
    }
    if (a->logits != LOGITS_PLAIN) {
        if (a->logit_scale_required) key_float_needed(r, "logit_scale", -1e6, 1e6);
        logits = scale_key(r, "logit_scale", own ? 256 / width : 1);
    }
    m->sizes.logit_factor = (float)(a->logits == LOGITS_OVER ? 1 / logits : logits);
    if (a->final_cap)
        m->final_cap = (float)key_float(r, "final_logit_softcapping", a->final_cap_default, 0, 1e6);
    m->eps = (float)key_float_needed(
        r, a->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0, 1);
    if (a->parallel_by_key) {
        if (!key_there(r, "use_parallel_residual"))
            key_number_needed(r, "use_parallel_residual", 0, 1);
        else
            m->parallel_own = key_bool(r, "use_parallel_residual", true);
    }
}

static void read_experts(forward_model *m, key_reader *r) {
    const architecture *a = m->arch;
    m->expert_scale = 1;
    if (a->routing == ROUTE_NONE) return;
    m->experts = key_number(r, "expert_count", 0, 0, 1 << 16);
    m->normalised = a->routing == ROUTE_SOFT_NORM;
    if (!m->experts) return; /* a tensor that is routed is told later */
    m->experts_used = key_number(r, "expert_used_count", 0, 0, m->experts);
    if (!m->experts_used)
        key_fail(r, "expert_used_count", "is 0 or missing, expected 1 to expert_count: %zu", m->experts);
    if (a->routing != ROUTE_KEYS) return;
    uint64_t gating = key_number(r, "expert_gating_func", 0, 0, 2);
    m->sigmoid = (gating ? gating : a->gating) == 2;
    m->normalised = key_bool(r, "expert_weights_norm", false);
    m->expert_scale = (float)scale_key(r, "expert_weights_scale", 1);
    m->groups = key_number(r, "expert_group_count", 0, 0, MOST);
    if (m->groups <= 1) return;
    m->groups_used = key_number_needed(r, "expert_group_used_count", 1, m->groups);
    if (m->experts % m->groups != 0 || m->experts / m->groups < 2) {
        key_fail(r, "expert_group_count",
                 "is %zu, expected a divisor of expert_count, %zu, in groups of two "
                 "or more",
                 m->groups, m->experts);
    } else if (m->groups_used * (m->experts / m->groups) < m->experts_used) {
        key_fail(r, "expert_used_count", "is %zu, but the %zu groups used have %zu experts", m->experts_used,
                 m->groups_used, m->groups_used * (m->experts / m->groups));
    }
}

static bool read_layers(forward_model *m, key_reader *r) {
    uint64_t blocks = key_number_needed(r, "block_count", 1, MOST), extra = 0;
    if (m->arch->extra_layers) extra = key_number(r, "nextn_predict_layers", 0, 0, blocks - 1);
    if (r->ok && blocks > m->file->n_tensors)
        key_fail(r, "block_count", "is %llu, but the model has only %llu tensors", (unsigned long long)blocks,
                 (unsigned long long)m->file->n_tensors);
    if (!r->ok) return false;
    m->sizes.layers = blocks - extra;
    m->layers = calloc(m->sizes.layers, sizeof *m->layers);
    return m->layers || gq_fail_memory(r->e, m->sizes.layers * sizeof *m->layers);
}

bool model_read_keys(forward_model *m, gq_error *e) {
    key_reader r = key_reader_of(m->file, e);
    m->sizes.width = key_number_needed(&r, "embedding_length", 1, MOST);
    m->sizes.trained = key_number_needed(&r, "context_length", 1, MOST);
    if (!read_layers(m, &r)) return false;
    read_heads(m, &r);
    read_windows(m, &r);
    if (r.ok) read_rope(m, &r);
    choose_rope_layers(m, &r);
    read_scales(m, &r);
    read_experts(m, &r);
    return r.ok;
}

/* ---- opening ---- */

static bool unknown_architecture(const forward_model *m, const char *name, gq_error *e) {
    char list[768] = "";
    for (size_t i = 0; architecture_at(i); i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                 architecture_at(i)->name);
    if (!*name) return gq_fail(e, "%s: there is no key general.architecture", m->path);
    return gq_fail(e, "%s: architecture '%s' cannot be run, only: %s", m->path, name, list);
}

/* Before shapes are looked at, which would be called wrong. */
static bool refuse_transposed(const forward_model *m, gq_error *e) {
    for (uint64_t i = 0; i < m->file->n_tensors; i++) {
        const gguf_tensor *t = m->file->tensors[i];
        if (t->transposed)
            return gq_fail(
                e,
                "%s: tensor %s is stored transposed, as %s says, and no model is run so: transpose it "
                "back first",
                gguf_model_path(m->file, t), t->name, GGUF_TRANSPOSED_KEY);
    }
    return true;
}

static bool set_up(forward_model *m, gq_error *e) {
    gguf_facts facts = gguf_facts_of(m->file->kv, m->file->n_kv, NULL, 0);
    m->arch = architecture_named(facts.arch);
    if (!m->arch) return unknown_architecture(m, facts.arch, e);
    m->codecs = kernels_select();
    if (!m->codecs) return gq_fail_usage(e, "%s", kernels_why_none());
    m->kernels = forward_kernels_of(m->codecs);
    m->elements = m->kernels->elements;
    return refuse_transposed(m, e) && model_read_keys(m, e) && model_find_tensors(m, e);
}

forward_model *forward_model_new(const gguf_model *g, gq_error *e) {
    forward_model *m = calloc(1, sizeof *m);
    if (!m) return gq_fail_memory(e, sizeof *m), NULL;
    m->file = g, m->path = g->path;
    if (set_up(m, e)) return m;
    forward_model_free(m);
    return NULL;
}

void forward_model_free(forward_model *m) {
    if (m) free(m->layers);
    free(m);
}

const forward_sizes *forward_model_sizes(const forward_model *m) { return &m->sizes; }
