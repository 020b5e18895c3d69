/* Ops of experts: matrices of single experts become a stack, and a stack of several matrices is taken apart; routers. */
#include <stdlib.h>
#include <string.h>

#include "hf/tensors/tensors.h"

/* ---- stacks ---- */

static bool op_stack(hf_build *b, const hf_match *f, uint64_t n, gq_error *e) {
    hf_view v = hf_match_view(f);
    if (n == 0 || f->expert >= n)
        return hf_match_fail(f, e, "number %llu, but the config has %llu", LLU(f->expert), LLU(n));
    if (v.n_dims == 0 || v.n_dims > 2)
        return hf_match_fail(f, e, "%u dimensions, expected a matrix", v.n_dims);
    uint64_t ne[3] = {v.count[v.n_dims - 1] * hf_source_unit(f->source), v.n_dims > 1 ? v.count[0] : n, n};
    /* Each piece is a source tensor of its own: a config must not ask for more than there are. */
    size_t had = b->n;
    hf_tensor *t = n <= b->n_sources ? hf_build_tensor(b, f, 0, n, v.n_dims + 1, ne, e) : NULL;
    if (n <= b->n_sources && !t) return false;
    if (b->n > had) b->n_stacked += n;
    if (!t || b->n_stacked > b->n_sources)
        return hf_match_fail(f, e, "the config has %llu experts, but the folder has %zu tensors", LLU(n),
                             b->n_sources);
    return hf_build_piece(f, t, f->expert, &v, e) != NULL;
}

HF_OP(join_experts) { return op_stack(b, f, b->n_experts, e); }
HF_OP(join_heads_q) { return op_stack(b, f, b->sizes.heads, e); }
HF_OP(join_heads_k) { return op_stack(b, f, b->sizes.kv_heads, e); }

HF_OP(join_experts_by_layer) {
    const json_t *list = hf_config_get(b->config, "vision.pyramid_num_routed");
    json_int_t n = json_integer_value(json_array_get(list, f->layer));
    return op_stack(b, f, n > 0 ? (uint64_t)n : 0, e);
}

HF_OP(join_expert_pairs) { return op_stack(b, f, b->n_experts / 2, e); }

HF_OP(join_altup) {
    enum { STREAMS = 3 }; /* besides the first one */
    hf_view v = hf_view_of(f->source);
    uint64_t ne[3] = {f->source->columns, f->source->rows, STREAMS};
    if (f->expert >= STREAMS || v.n_dims != 2)
        return hf_match_fail(f, e, "expected %d matrices of this name", STREAMS);
    hf_tensor *t = hf_build_tensor(b, f, 0, STREAMS, 3, ne, e);
    return t && hf_build_piece(f, t, f->expert, &v, e);
}

/* [E n, d], without a suffix: the rule's name in GGUF has one. */
static bool op_expert_rows(hf_build *b, const hf_match *f, bool transposes, gq_error *e) {
    hf_view v = hf_match_view(f);
    uint64_t n = b->n_experts;
    if (v.n_dims != 2 || n == 0 || v.count[0] % n || !hf_view_split(&v, 0, v.count[0] / n))
        return hf_match_fail_rows(f, e, n, "the number of experts");
    if (transposes) hf_view_swap(&v, 1, 2);
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

HF_OP(reshape_experts) { return op_expert_rows(b, f, false, e); }
HF_OP(reshape_transpose_experts) { return op_expert_rows(b, f, true, e); }

/* gate_up_proj [E, d, 2 n] of 16 bits, [E, 2 n, d] of MXFP4, or a bias [E, 2 n]. */
HF_OP(split_even_odd) {
    bool transposed = f->source->coding != &hf_mxfp4 && f->source->n_dims == 3;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_match_view(f);
        if (transposed) hf_view_swap(&v, 1, 2);
        if (v.n_dims < 2 || v.count[1] % 2 || !hf_view_cut(&v, 1, i, v.count[1] / 2, 2))
            return hf_match_fail_shape(f, e, "an even number of rows");
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

HF_OP(transpose_down_experts) {
    return (f->source->coding == &hf_mxfp4 || f->source->n_dims != 3 ? hf_op_copy : hf_op_transpose)(b, f, e);
}

/* One of two source tensors that become gate and up of each expert in one tensor, one behind the other. */
static bool op_fused(hf_build *b, const hf_match *f, size_t half, gq_error *e) {
    hf_view whole = hf_view_of(f->source);
    uint64_t n = b->n_experts;
    if (whole.n_dims != 3 || n == 0 || whole.count[0] != n)
        return hf_match_fail(f, e, "its shape is not that of %llu matrices, the config's number of experts",
                             LLU(n));
    uint64_t ne[3] = {whole.count[2], 2 * whole.count[1], n};
    hf_tensor *t = hf_build_tensor(b, f, 0, 2 * n, 3, ne, e);
    for (uint64_t i = 0; t && i < n; i++) {
        hf_view v = whole;
        if (!hf_view_cut(&v, 0, i, 1, 1) || !hf_build_piece(f, t, 2 * i + half, &v, e)) return false;
    }
    return t != NULL;
}

HF_OP(take_gate_rows) { return op_fused(b, f, 0, e); }
HF_OP(take_up_rows) { return op_fused(b, f, 1, e); }

/* ---- experts of some layers ---- */

/* jamba numbers the only expert of a layer without experts. */
static bool jamba_has_experts(const hf_build *b, uint64_t layer) {
    uint32_t offset, period;
    return hf_config_u32_or(b->config, "expert_layer_offset", 1, &offset, NULL) &&
           hf_config_u32_or(b->config, "expert_layer_period", 2, &period, NULL) && period > 0 &&
           layer >= offset && (layer - offset) % period == 0;
}

HF_OP(copy_only_expert) {
    static const arch_rule experts[] = {RULE("", "blk.#.ffn_gate_exps"), RULE("", "blk.#.ffn_up_exps"),
                                        RULE("", "blk.#.ffn_down_exps")};
    if (!jamba_has_experts(b, f->layer)) return hf_op_copy(b, f, e);
    hf_match stacked = *f;
    for (size_t i = 0; i < 3; i++)
        if (strncmp(experts[i].to, f->rule->to, strlen(f->rule->to)) == 0) stacked.rule = &experts[i];
    return hf_op_join_experts(b, &stacked, e);
}

static const arch_rule shared_rules[] = {RULE("", "blk.#.ffn_gate_shexp|blk.#.ffn_up_shexp"),
                                         RULE("", "blk.#.ffn_down_shexp")};

HF_OP(split_shared_expert) {
    hf_match g = *f;
    if (b->n_experts) g.rule = &shared_rules[0];
    return hf_op_split_halves(b, &g, e);
}

HF_OP(copy_shared_expert) {
    hf_match g = *f;
    if (b->n_experts) g.rule = &shared_rules[1];
    return hf_op_copy(b, &g, e);
}

/* ---- routers ---- */

HF_OP(reshape_router_bias) {
    if (f->source->n_dims == 1 && f->source->columns == b->n_experts) return hf_op_copy(b, f, e);
    return hf_match_fail(f, e, "%llu elements, expected one for each of %llu experts",
                         LLU(f->source->stored->n), LLU(b->n_experts));
}

/* deepseek4: [vocabulary, used], in place of a choice by scores. */
HF_OP(experts_of_tokens) {
    const hf_stored *s = f->source->stored;
    if (f->source->coding != &hf_plain || s->n_dims != 2 || s->n == 0)
        return hf_match_fail(f, e, "%u dimensions, expected a matrix: the numbers of each token's experts",
                             s->n_dims);
    int64_t *ids = hf_ids_read(f, e);
    if (!ids) return false;
    for (uint64_t i = 0; i < s->n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= b->n_experts) {
            hf_match_fail(f, e, "token %llu has expert %lld, but there are %llu", LLU(i / s->shape[1]),
                          (long long)ids[i], LLU(b->n_experts));
            return free(ids), false;
        }
    return hf_build_ids(b, f, GGUF_I32, ids, s->n, s->shape[0], e);
}

HF_OP(omit_bias_beside_table) {
    uint32_t tables;
    return hf_config_u32_or(b->config, "num_hash_layers", 0, &tables, e) &&
           (f->layer < tables || hf_op_reshape_router_bias(b, f, e));
}

/* sarvam: what is added to the router's scores has a mean of 0. */
HF_OP(subtract_mean) {
    enum { EXPERTS_MOST = 1 << 16 };
    uint64_t n = f->source->stored->n;
    if (f->source->n_dims != 1 || n == 0 || n > EXPERTS_MOST)
        return hf_match_fail(f, e, "expected a vector of at most %d elements", EXPERTS_MOST);
    float *x = malloc(n * sizeof *x), sum = 0;
    bool ok = (x || gq_fail_memory(e, n * sizeof *x)) && hf_build_floats(f->source, 0, n, x, e);
    for (uint64_t i = 0; ok && i < n; i++) sum += x[i];
    free(x);
    return ok && hf_build_with_op(b, f, HF_ADD, -(sum / (float)n), e);
}
