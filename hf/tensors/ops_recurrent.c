/* Ops of recurrent mixers: Mamba, delta nets, RWKV.
 *
 * A delta net has fewer key heads (G) than value heads (V). The folder keeps the V / G value heads of a key
 * head together; llama.cpp repeats the key heads as a whole, so value head g V / G + j of the folder becomes
 * head j G + g.
 */
#include <math.h>
#include <string.h>

#include "hf/tensors/tensors.h"

/* ---- Mamba ---- */

HF_OP(reshape_norm_groups) {
    uint32_t groups;
    hf_view v = hf_view_of(f->source);
    if (!hf_config_u32_or(b->config, "mamba_n_groups|n_groups", 1, &groups, e)) return false;
    if (v.n_dims != 1 || groups == 0 || v.count[0] % groups || !hf_view_split(&v, 0, v.count[0] / groups))
        return hf_match_fail_shape(f, e, "a shape that fits the number of groups");
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

HF_OP(reshape_conv) {
    const hf_source *s = f->source;
    hf_view v = hf_view_of(s);
    uint64_t ne[3] = {s->columns, 1, s->rows};
    return hf_build_shaped(b, f, 0, &v, 3, ne, e) != NULL;
}

HF_OP(take_first_heads) {
    const hf_source *s = f->source;
    hf_view v = {.n_dims = 1, .count = {b->sizes.heads}, .stride = {1}};
    uint64_t ne[1] = {b->sizes.heads};
    if (b->sizes.heads == 0 || s->rows * s->columns < b->sizes.heads)
        return hf_match_fail_shape(f, e, "a shape that fits the number of heads");
    hf_piece *p = hf_build_shaped(b, f, 0, &v, 1, ne, e);
    return p && hf_piece_add_op(p, HF_NEGATIVE_EXP, 0, e);
}

static bool op_column(hf_build *b, const hf_match *f, hf_value_op_kind op, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint64_t ne[2] = {1, f->source->rows * f->source->columns};
    hf_piece *p = hf_build_shaped(b, f, 0, &v, 2, ne, e);
    return p && hf_piece_add_op(p, op, 0, e);
}

HF_OP(negative_exp_of_heads) {
    return b->arch->first_heads ? hf_op_take_first_heads(b, f, e) : op_column(b, f, HF_NEGATIVE_EXP, e);
}

HF_OP(exp_column) { return op_column(b, f, HF_EXP, e); }

/* falcon-h1: factors that the model applies to activations are put into the weights. `index` >= 0: an entry
 * of a list. */
static const struct {
    const char *end, *key;
    int index;
} factor_rows[] = {
    {"down_proj.weight", "mlp_multipliers", 1},
    {"gate_proj.weight", "mlp_multipliers", 0},
    {"self_attn.k_proj.weight", "key_multiplier", -1},
    {"self_attn.k_proj.weight", "attention_in_multiplier", -1},
    {"self_attn.q_proj.weight", "attention_in_multiplier", -1},
    {"self_attn.v_proj.weight", "attention_in_multiplier", -1},
    {"self_attn.o_proj.weight", "attention_out_multiplier", -1},
    {"mamba.out_proj.weight", "ssm_out_multiplier", -1},
    {"mamba.in_proj.weight", "ssm_in_multiplier", -1},
    {"lm_head.weight", "lm_head_multiplier", -1},
    {"embed_tokens.weight", "embedding_multiplier", -1},
};

static bool factor_value(const hf_build *b, const char *key, int index, double *value, gq_error *e) {
    const json_t *v = hf_config_get(b->config, key);
    return hf_value_float(b->config, index < 0 ? v : json_array_get(v, (size_t)index), key, value, e);
}

static bool factors_add(const hf_build *b, const hf_match *f, hf_piece *p, gq_error *e) {
    double value;
    for (size_t i = 0; i < sizeof factor_rows / sizeof *factor_rows; i++)
        if (name_ends(f->source->name, factor_rows[i].end) &&
            (!factor_value(b, factor_rows[i].key, factor_rows[i].index, &value, e) ||
             !hf_piece_add_op(p, HF_MULTIPLY, value, e)))
            return false;
    return true;
}

/* in_proj: a factor more for the rows of z, x, B, C and dt each. */
static bool op_factor_rows(hf_build *b, const hf_match *f, gq_error *e) {
    const hf_config *c = b->config;
    uint32_t inner, groups, state;
    if (!hf_config_u32(c, "mamba_d_ssm", &inner, e) || !hf_config_u32(c, "mamba_n_groups", &groups, e) ||
        !hf_config_u32(c, "mamba_d_state", &state, e))
        return false;
    hf_view whole = hf_view_of(f->source);
    uint64_t n = (uint64_t)groups * state, rows = whole.count[0], first = 0;
    uint64_t size[5] = {inner, inner, n, n, rows - 2 * (uint64_t)inner - 2 * n};
    if (whole.n_dims != 2 || rows <= 2 * (uint64_t)inner + 2 * n)
        return hf_match_fail_shape(f, e, "a shape that fits mamba's sizes");
    hf_tensor *t = hf_build_pieces(b, f, 5, e);
    for (int i = 0; t && i < 5; first += size[i++]) {
        hf_view v = hf_view_of(f->source);
        double value;
        if (!hf_view_cut(&v, 0, first, size[i], 1))
            return hf_match_fail_shape(f, e, "a shape that fits mamba's sizes");
        hf_piece *p = hf_build_piece(f, t, (size_t)i, &v, e);
        if (!p || !factors_add(b, f, p, e) || !factor_value(b, "ssm_multipliers", i, &value, e) ||
            !hf_piece_add_op(p, HF_MULTIPLY, value, e))
            return false;
    }
    return t != NULL;
}

HF_OP(scale_falcon_h1) {
    if (name_ends(f->source->name, "mamba.in_proj.weight")) return op_factor_rows(b, f, e);
    hf_piece *p = hf_build_whole(b, f, e);
    return p && factors_add(b, f, p, e);
}

/* ---- delta nets ---- */

typedef struct delta_heads {
    uint32_t keys, values, key_width, value_width; /* heads, and elements of one */
} delta_heads;

static bool delta_read(const hf_build *b, delta_heads *d, gq_error *e) {
    const hf_config *c = b->config;
    if (!hf_config_u32(c, "linear_num_key_heads", &d->keys, e) ||
        !hf_config_u32(c, "linear_num_value_heads", &d->values, e) ||
        !hf_config_u32(c, "linear_key_head_dim", &d->key_width, e) ||
        !hf_config_u32(c, "linear_value_head_dim", &d->value_width, e))
        return false;
    if (d->keys && d->values && d->values % d->keys == 0 && d->key_width && d->value_width) return true;
    return hf_config_fail(c, e,
                          "linear_num_value_heads is %u, no multiple of linear_num_key_heads, which is %u",
                          d->values, d->keys);
}

/* Reorders a dimension of value heads, each of `width` entries. */
static bool view_tile(hf_view *v, uint32_t dim, const delta_heads *d, uint64_t width) {
    if (v->count[dim] != d->values * width || !hf_view_split(v, dim, width) ||
        !hf_view_split(v, dim, d->values / d->keys))
        return false;
    hf_view_swap(v, dim, dim + 1);
    return true;
}

/* Value heads of either one entry (a, b, A_log, dt_bias) or value_width (z). */
static bool op_tile(hf_build *b, const hf_match *f, uint32_t dim, gq_error *e) {
    delta_heads d;
    hf_view v = hf_view_of(f->source);
    if (v.n_dims == 0) return hf_match_fail_shape(f, e, "a shape that fits the value heads");
    if (!delta_read(b, &d, e)) return false;
    if (v.n_dims > 2 || dim >= v.n_dims ||
        !view_tile(&v, dim, &d, v.count[dim] == d.values ? 1 : d.value_width))
        return hf_match_fail_shape(f, e, "a shape that fits the value heads");
    hf_piece *p = hf_build_reordered(b, f, &v, e);
    return p && (!strstr(f->source->name, "A_log") || hf_piece_add_op(p, HF_NEGATIVE_EXP, 0, e));
}

HF_OP(reorder_value_heads) { return op_tile(b, f, 0, e); }
HF_OP(reorder_value_columns) { return op_tile(b, f, 1, e); }

/* Rows of queries and keys as they are, then those of values, tiled; also of the convolution [C, 1, w]. */
HF_OP(reorder_values_of_qkv) {
    delta_heads d;
    const hf_source *s = f->source;
    hf_view part[2] = {hf_view_of(s), hf_view_of(s)};
    if (s->n_dims < 2) return hf_match_fail_shape(f, e, "a shape that fits the value heads");
    if (!delta_read(b, &d, e)) return false;
    uint64_t rows = part[0].count[0], values = (uint64_t)d.values * d.value_width,
             ne[2] = {part[0].count[s->n_dims - 1], rows};
    if (rows <= values || (s->n_dims > 2 && s->rows != rows) ||
        !hf_view_cut(&part[0], 0, 0, rows - values, 1) ||
        !hf_view_cut(&part[1], 0, rows - values, values, 1) || !view_tile(&part[1], 0, &d, d.value_width))
        return hf_match_fail_shape(f, e, "a shape that fits the value heads");
    hf_tensor *t = hf_build_tensor(b, f, 0, 2, 2, ne, e);
    return t && hf_build_piece(f, t, 0, &part[0], e) && hf_build_piece(f, t, 1, &part[1], e);
}

/* Per key head: rows of q, of k, of its value heads' v, of their z. */
HF_OP(split_qkvz) {
    delta_heads d;
    const hf_source *s = f->source;
    if (!delta_read(b, &d, e)) return false;
    uint64_t values = (uint64_t)d.values / d.keys * d.value_width, group = 2ull * d.key_width + 2 * values;
    const uint64_t first[4] = {0, d.key_width, 2ull * d.key_width, 2ull * d.key_width + values};
    const uint64_t n[4] = {d.key_width, d.key_width, values, values};
    hf_view whole = hf_view_of(s);
    uint64_t ne[2] = {whole.count[1], (group - values) * d.keys};
    if (whole.n_dims != 2 || whole.count[0] != group * d.keys)
        return hf_match_fail_shape(f, e, "a shape that fits the heads");
    hf_view part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = hf_view_of(s);
        if (!hf_view_split(&part[i], 0, group) || !hf_view_cut(&part[i], 1, first[i], n[i], 1))
            return hf_match_fail_shape(f, e, "a shape that fits the heads");
    }
    hf_tensor *t = hf_build_tensor(b, f, 0, 3, 2, ne, e);
    for (size_t i = 0; t && i < 3; i++)
        if (!hf_build_piece(f, t, i, &part[i], e)) return false;
    ne[1] = values * d.keys;
    return t && hf_build_shaped(b, f, 1, &part[3], 2, ne, e);
}

/* ---- RWKV ---- */

/* Vectors of what is mixed, in the order that readers expect: rwkv6 is without a, rwkv7 may be without g. */
HF_OP(join_lerp) {
    const char *name = f->source->name, *order = strstr(name, "time_maa_") ? "wkvrg" : "rwkvag";
    bool gate;
    if (!hf_config_bool_or(b->config, "wkv_has_gate", true, &gate, e)) return false;
    uint64_t n = strlen(order) - (*order == 'r' && !gate), elements = f->source->rows * f->source->columns;
    if (name_ends(name, "x_x")) { /* all of them are in one source tensor */
        hf_view v = hf_view_squeezed(f->source);
        if (v.n_dims != 2 || v.count[0] != n)
            return hf_match_fail(f, e, "its shape is not that of %llu vectors", LLU(n));
        return hf_build_shaped(b, f, 0, &v, 4, (uint64_t[]){v.count[1], 1, 1, n}, e) != NULL;
    }
    const char *letter = strchr(order, name[strlen(name) - 1]);
    hf_view v = hf_view_squeezed(f->source);
    if (!letter || (uint64_t)(letter - order) >= n || v.n_dims != 1)
        return hf_match_fail(f, e, "expected one vector of %.*s", (int)n, order);
    hf_tensor *t = hf_build_tensor(b, f, 0, n, 4, (uint64_t[]){elements, 1, 1, n}, e);
    return t && hf_build_piece(f, t, (size_t)(letter - order), &v, e);
}

HF_OP(scale_rwkv6) {
    uint32_t every;
    if (!hf_config_u32_or(b->config, "rescale_every", 0, &every, e)) return false;
    hf_piece *p = hf_build_whole(b, f, e);
    uint64_t halvings = every ? f->layer / every : 0;
    return p && (!halvings || hf_piece_add_op(p, HF_MULTIPLY, exp2(-(double)halvings), e));
}

/* The parts are those of r, k, v, w, g; readers expect w, k, v, r, g. */
HF_OP(transpose_shifts) {
    enum { PARTS = 5 };
    static const uint64_t order[PARTS] = {3, 1, 2, 0, 4};
    hf_view whole = hf_view_of(f->source);
    uint32_t n = whole.n_dims;
    if (n == 2 || n == 3) hf_view_swap(&whole, n - 2, n - 1);
    uint64_t ne[3] = {n ? whole.count[n - 1] : 0, n == 3 ? whole.count[1] : whole.count[0],
                      n == 3 ? PARTS : 1};
    uint64_t rows = whole.count[0] / PARTS;
    if ((n != 2 && n != 3) || rows == 0 || whole.count[0] % PARTS || (n == 3 && rows != 1))
        return hf_match_fail(f, e, "its shape is not that of %d parts", PARTS);
    hf_tensor *t = hf_build_tensor(b, f, 0, PARTS, n, ne, e);
    for (size_t i = 0; t && i < PARTS; i++) {
        hf_view v = whole;
        if (!hf_view_cut(&v, 0, order[i] * rows, rows, 1) || !hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* Matrices of flash-linear-attention are transposed already. The first layer mixes no values of a layer before;
 * readers expect the tensors, and are given those of its learning rate. */
HF_OP(transpose_low_rank) {
    bool first = f->layer == 0;
    hf_view v = hf_view_squeezed(f->source);
    if (first && !strchr(f->rule->to, '|') && strstr(f->rule->to, "time_mix_v")) return true;
    if (v.n_dims == 2 && !strstr(f->source->name, "_lora.")) hf_view_swap(&v, 0, 1);
    return hf_build_view(b, f, 0, &v, e) &&
           (!first || !strchr(f->rule->to, '|') || hf_build_view(b, f, 1, &v, e));
}
