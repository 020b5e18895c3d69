/* Steps that one or two architectures have. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "hf/build_tensor.h"
#include "hf/steps.h"

bool hf_step_cut_rows(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims == 2 && v.count[0] > b->n_tokens && !hf_view_cut(&v, 0, 0, b->n_tokens, 1))
        return hf_found_fail(f, e, "the vocabulary has no tokens");
    hf_piece *p = hf_build_view(b, f, 0, &v, e);
    return p != NULL;
}

bool hf_step_down_experts(hf_build *b, const hf_found *f, gq_error *e) {
    return (f->source->coding == HF_MXFP4 || f->source->n_dims != 3 ? hf_step_plain : hf_step_turned)(b, f,
                                                                                                      e);
}

bool hf_step_stack_altup(hf_build *b, const hf_found *f, gq_error *e) {
    enum { STREAMS = 3 }; /* besides the first one */
    hf_view v = hf_view_of(f->source);
    uint64_t ne[3] = {f->source->columns, f->source->rows, STREAMS};
    if (f->expert >= STREAMS || v.n_dims != 2)
        return hf_found_fail(f, e, "expected %d matrices of this name", STREAMS);
    hf_tensor *t = hf_build_tensor(b, f, 0, STREAMS, 3, ne, e);
    return t && hf_build_piece(f, t, f->expert, &v, e);
}

/* jamba numbers the only expert of a layer without experts. */
static bool jamba_has_experts(const hf_build *b, uint64_t layer) {
    uint32_t offset, period;
    return hf_config_u32_or(b->config, "expert_layer_offset", 1, &offset, NULL) &&
           hf_config_u32_or(b->config, "expert_layer_period", 2, &period, NULL) && period > 0 &&
           layer >= offset && (layer - offset) % period == 0;
}

bool hf_step_expert_first(hf_build *b, const hf_found *f, gq_error *e) {
    static const arch_rule experts[] = {RULE("", "blk.#.ffn_gate_exps"), RULE("", "blk.#.ffn_up_exps"),
                                        RULE("", "blk.#.ffn_down_exps")};
    if (!jamba_has_experts(b, f->layer)) return hf_step_plain(b, f, e);
    hf_found stacked = *f;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(experts[i].to, f->rule->to, strlen(f->rule->to)) == 0) stacked.rule = &experts[i];
    return hf_step_stack(b, &stacked, e);
}

static const arch_rule shared_rules[] = {RULE("", "blk.#.ffn_gate_shexp|blk.#.ffn_up_shexp"),
                                         RULE("", "blk.#.ffn_down_shexp")};

bool hf_step_shared_halves(hf_build *b, const hf_found *f, gq_error *e) {
    hf_found g = *f;
    if (b->n_experts) g.rule = &shared_rules[0];
    return hf_step_halves(b, &g, e);
}

bool hf_step_shared(hf_build *b, const hf_found *f, gq_error *e) {
    hf_found g = *f;
    if (b->n_experts) g.rule = &shared_rules[1];
    return hf_step_plain(b, &g, e);
}

/* Where a tensor has gate and up of each expert, one behind the other, and the folder has two arrays. */
static bool step_fused(hf_build *b, const hf_found *f, size_t half, gq_error *e) {
    hf_view whole = hf_view_of(f->source);
    uint64_t n = b->n_experts;
    if (whole.n_dims != 3 || n == 0 || whole.count[0] != n)
        return hf_found_fail(f, e, "its shape is not that of %llu matrices, the config's number of experts",
                             (unsigned long long)n);
    uint64_t ne[3] = {whole.count[2], 2 * whole.count[1], n};
    hf_tensor *t = hf_build_tensor(b, f, 0, 2 * n, 3, ne, e);
    for (uint64_t i = 0; t && i < n; i++) {
        hf_view v = whole;
        if (!hf_view_cut(&v, 0, i, 1, 1) || !hf_build_piece(f, t, 2 * i + half, &v, e)) return false;
    }
    return t != NULL;
}

bool hf_step_fused_gate(hf_build *b, const hf_found *f, gq_error *e) { return step_fused(b, f, 0, e); }
bool hf_step_fused_up(hf_build *b, const hf_found *f, gq_error *e) { return step_fused(b, f, 1, e); }

bool hf_step_heads_column(hf_build *b, const hf_found *f, gq_error *e) {
    if (b->arch->first_heads) return hf_step_first_heads(b, f, e);
    hf_view v = hf_view_of(f->source);
    uint64_t ne[2] = {1, f->source->rows * f->source->columns};
    hf_piece *p = hf_build_shaped(b, f, 0, &v, 2, ne, e);
    return p && hf_piece_add_op(p, HF_NEGATIVE_EXP, 0, e);
}

/* The config counts layers of full attention from 1. */
bool hf_step_gate_of_layer(hf_build *b, const hf_found *f, gq_error *e) {
    static const arch_rule full = RULE("", "blk.#.attn_gate");
    const json_t *layers = hf_config_get(b->config, "linear_attn_config.full_attn_layers");
    hf_found g = *f;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == (json_int_t)f->layer + 1) g.rule = &full;
    return hf_step_plain(b, &g, e);
}

bool hf_step_shared_next(hf_build *b, const hf_found *f, gq_error *e) {
    bool each = b->config->row->folder.predicting.for_each;
    for (uint64_t i = 0; i < (each ? b->config->predicting : 1); i++) {
        hf_found g = *f;
        g.layer = b->config->layers + i;
        if (!hf_step_plain(b, &g, e)) return false;
    }
    return true;
}
