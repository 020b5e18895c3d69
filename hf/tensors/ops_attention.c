/* Ops of attention: rows of queries, keys and values taken apart, joined, and put in the order that readers of a GGUF
 * rotate them in. */
#include <math.h>
#include <string.h>

#include "hf/tensors/tensors.h"

/* ---- rows in another order ---- */

/* Reorders the rows of each of `heads` heads of a view's dimension from two halves to pairs. */
static bool view_permute(hf_view *v, uint32_t dim, uint64_t heads) {
    uint64_t rows = v->count[dim], width = heads ? rows / heads : 0;
    if (width == 0 || width % 2 != 0 || rows % heads != 0) return false;
    if (!hf_view_split(v, dim, width) || !hf_view_split(v, dim + 1, width / 2)) return false;
    hf_view_swap(v, dim + 1, dim + 2);
    return true;
}

static bool op_permute(hf_build *b, const hf_match *f, uint64_t heads, gq_error *e) {
    hf_view v = hf_match_view(f);
    if (v.n_dims > 2 || (v.n_dims < 2 && strcmp(f->suffix, ".weight") == 0))
        return hf_match_fail(f, e, "%u dimensions, expected a matrix", v.n_dims);
    if (!view_permute(&v, 0, heads)) return hf_match_fail_rows(f, e, heads, "the number of heads");
    return hf_build_reordered(b, f, &v, e);
}

HF_OP(rope_pairs_q) { return op_permute(b, f, b->sizes.heads, e); }
HF_OP(rope_pairs_k) { return op_permute(b, f, b->sizes.kv_heads, e); }

HF_OP(rope_pairs_k_by_layer) {
    return op_permute(b, f, hf_deci_kv_heads(b->config, b->sizes.heads, b->sizes.kv_heads, f->layer), e);
}

/* chameleon's norms of queries and keys have a row for each part of a cluster, all alike, of which the converter takes
 * the first. */
static bool op_first_rotated(hf_build *b, const hf_match *f, uint64_t heads, gq_error *e) {
    uint64_t head = f->source->columns, ne[2] = {head, heads};
    if (f->source->n_dims != 2 || head % 2 != 0)
        return hf_match_fail(f, e, "expected rows of an even number of elements");
    hf_view v = {.n_dims = 3, .count = {heads, head / 2, 2}, .stride = {0, 1, head / 2}};
    return hf_build_shaped(b, f, 0, &v, 2, ne, e) != NULL;
}

HF_OP(rope_pairs_first_row_q) { return op_first_rotated(b, f, b->sizes.heads, e); }
HF_OP(rope_pairs_first_row_k) { return op_first_rotated(b, f, b->sizes.kv_heads, e); }

HF_OP(rope_halves_draft) {
    bool has_halves;
    if (!hf_config_bool_or(b->config, "rope_is_neox_style", true, &has_halves, e)) return false;
    if (has_halves) return hf_op_copy(b, f, e);
    hf_view v = hf_view_of(f->source);
    uint64_t width = b->sizes.head_width;
    if (v.n_dims == 0 || v.n_dims > 2 || width < 2 || width % 2 || !hf_view_split(&v, 0, width) ||
        !hf_view_split(&v, 1, 2))
        return hf_match_fail(f, e, "its rows are no heads of %llu, an even number", LLU(width));
    hf_view_swap(&v, 1, 2);
    return hf_build_reordered(b, f, &v, e);
}

/* talkie rotates its heads in the other direction. */
HF_OP(negate_second_halves) {
    hf_view whole = hf_view_of(f->source);
    uint64_t width = b->sizes.head_width, rows = whole.count[0];
    if (whole.n_dims != 2 || width == 0 || width % 2 || rows % width)
        return hf_match_fail(f, e, "%llu rows, expected heads of %llu", LLU(rows), LLU(width));
    uint64_t half = width / 2, n = rows / half;
    hf_tensor *t = hf_build_pieces(b, f, n, e);
    for (uint64_t i = 0; t && i < n; i++) {
        hf_view v = whole;
        hf_piece *p = hf_view_cut(&v, 0, i * half, half, 1) ? hf_build_piece(f, t, i, &v, e) : NULL;
        if (!p || (i % 2 && !hf_piece_add_op(p, HF_MULTIPLY, -1, e))) return false;
    }
    return t != NULL;
}

/* plamo's query head i has the keys of head i modulo their number; readers give a head of keys to neighbours. These are
 * rows of the queries' matrix, and columns of the output's. */
HF_OP(reorder_sharing_heads) {
    uint32_t shared, dim = strcmp(f->rule->to, "blk.#.attn_output") == 0;
    hf_view v = hf_view_of(f->source);
    uint64_t heads = b->sizes.heads, width = b->sizes.head_width;
    if (!hf_config_u32(b->config, "n_shared_head", &shared, e)) return false;
    if (shared == 0 || heads % shared != 0)
        return hf_config_fail(b->config, e,
                              "num_attention_heads is %llu, expected a multiple of n_shared_head, %u",
                              LLU(heads), shared);
    if (v.n_dims != 2 || width == 0 || v.count[dim] != heads * width || !hf_view_split(&v, dim, width) ||
        !hf_view_split(&v, dim, heads / shared))
        return hf_match_fail(f, e, "its shape is not that of %llu heads of %llu", LLU(heads), LLU(width));
    hf_view_swap(&v, dim, dim + 1);
    return hf_build_reordered(b, f, &v, e);
}

/* glm4 rotates pairs of neighbours; with sections for images, readers rotate halves. A head's part that is not
 * rotated stays. */
HF_OP(rope_halves_glm) {
    const json_t *rope = b->config->rope, *part = json_object_get(rope, "partial_rotary_factor");
    double factor = 0.5;
    if (!json_object_get(rope, "mrope_section")) return hf_op_copy(b, f, e);
    if (part && !hf_value_float(b->config, part, "partial_rotary_factor", &factor, e)) return false;
    hf_view whole = hf_view_of(f->source);
    uint64_t heads = strstr(f->rule->to, "attn_q") ? b->sizes.heads : b->sizes.kv_heads;
    uint64_t width = b->sizes.head_width, rows = whole.n_dims ? whole.count[0] : 0,
             rotated = factor >= 0 && factor <= 1 ? (uint64_t)((double)width * factor) : 1;
    if (whole.n_dims > 2 || width == 0 || rows != heads * width || rotated % 2)
        return hf_match_fail(
            f, e, "%llu rows, expected %llu heads of %llu, of which an even number of values is rotated",
            LLU(rows), LLU(heads), LLU(width));
    uint64_t n = rows / width;
    unsigned parts = rotated < width ? 3 : 2; /* even rows, odd rows, the rest */
    hf_tensor *t = hf_build_pieces(b, f, parts * n, e);
    for (uint64_t i = 0; t && i < parts * n; i++) {
        hf_view v = whole;
        uint64_t k = i % parts, at = i / parts * width + (k < 2 ? k : rotated);
        if (!hf_view_cut(&v, 0, at, k < 2 ? rotated / 2 : width - rotated, k < 2 ? 2 : 1))
            return hf_match_fail(f, e, "its rows are no heads");
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

/* ---- queries, keys and values in one ---- */

/* One part of rows that come in groups: `n` rows from `first` on of each group of `group`. */
static bool group_part(hf_view *v, uint64_t group, uint64_t first, uint64_t n) {
    return hf_view_split(v, 0, group) && hf_view_cut(v, 1, first, n, 1);
}

/* Rows in groups of queries, a key, a value: three views. */
static bool qkv_views(const hf_build *b, const hf_match *f, uint64_t groups, hf_view part[3], gq_error *e) {
    uint64_t heads = b->sizes.heads, width = heads ? b->sizes.width / heads : 0;
    if (groups == 0 || heads % groups != 0 || width == 0 ||
        hf_match_view(f).count[0] != (heads + 2 * groups) * width)
        return hf_match_fail_rows(f, e, groups, "groups of heads");
    uint64_t queries = heads / groups * width, group = queries + 2 * width;
    const uint64_t first[3] = {0, queries, queries + width}, n[3] = {queries, width, width};
    for (int i = 0; i < 3; i++) {
        part[i] = hf_match_view(f);
        if (!group_part(&part[i], group, first[i], n[i]))
            return hf_match_fail_rows(f, e, group, "a group of heads");
    }
    return true;
}

/* One tensor of three views, in order. */
static bool build_three(hf_build *b, const hf_match *f, const hf_view part[3], gq_error *e) {
    hf_view v = hf_match_view(f);
    uint64_t ne[2] = {v.count[v.n_dims > 1 ? v.n_dims - 1 : 0], v.count[0]};
    hf_tensor *t = hf_build_tensor(b, f, 0, 3, v.n_dims > 1 ? 2 : 1, ne, e);
    for (size_t i = 0; t && i < 3; i++)
        if (!hf_build_piece(f, t, i, &part[i], e)) return false;
    return t != NULL;
}

HF_OP(reorder_qkv_groups) {
    uint32_t groups;
    hf_view part[3] = {0};
    return hf_config_u32_or(b->config, "num_kv_heads|n_head_kv", 1, &groups, e) &&
           qkv_views(b, f, groups ? groups : 1, part, e) && build_three(b, f, part, e);
}

HF_OP(reorder_qkv_heads) {
    hf_view part[3] = {0};
    return qkv_views(b, f, b->sizes.heads, part, e) && build_three(b, f, part, e);
}

HF_OP(split_qkv_groups) {
    hf_view part[3] = {0}, whole = hf_match_view(f);
    if (!qkv_views(b, f, b->sizes.kv_heads, part, e)) return false;
    if (whole.n_dims != 2) return hf_match_fail(f, e, "%u dimensions, expected a matrix", whole.n_dims);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t rows = part[i].count[0] * part[i].count[1],
                 heads = i == 0 ? b->sizes.heads : b->sizes.kv_heads;
        uint64_t width = rows / heads, ne[2] = {whole.count[1], rows};
        /* Within a group the heads stand whole: rows (group, head, width), of which width is permuted. */
        if (!hf_view_split(&part[i], 1, width) ||
            (i < 2 && (width % 2 != 0 || !hf_view_split(&part[i], 2, width / 2))))
            return hf_match_fail_rows(f, e, width, "the width of a head");
        if (i < 2) hf_view_swap(&part[i], 2, 3);
        if (!hf_build_shaped(b, f, i, &part[i], 2, ne, e)) return false;
    }
    return true;
}

/* Rows of several tensors one behind the other. */
static bool op_split_rows(hf_build *b, const hf_match *f, const uint64_t *rows, unsigned n, gq_error *e) {
    uint64_t first = 0;
    for (unsigned i = 0; i < n; first += rows[i++]) {
        hf_view v = hf_match_view(f);
        if (!hf_view_cut(&v, 0, first, rows[i], 1)) return hf_match_fail_rows(f, e, rows[i], "a part");
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return first == hf_match_view(f).count[0] || hf_match_fail_rows(f, e, first, "all parts");
}

HF_OP(split_qkv) {
    uint64_t width = b->sizes.head_width, kv = b->sizes.kv_heads * width;
    return op_split_rows(b, f, (uint64_t[]){b->sizes.heads * width, kv, kv}, 3, e);
}

HF_OP(split_qkv_rope_pairs) {
    uint64_t width = b->sizes.head_width, first = 0;
    const uint64_t heads[3] = {b->sizes.heads, b->sizes.kv_heads, b->sizes.kv_heads};
    for (unsigned i = 0; i < 3; first += heads[i++] * width) {
        hf_view v = hf_match_view(f);
        uint64_t ne[2] = {v.count[v.n_dims - 1], heads[i] * width};
        if (v.n_dims != 2 || !hf_view_cut(&v, 0, first, ne[1], 1) ||
            (i < 2 && !view_permute(&v, 0, heads[i])))
            return hf_match_fail_rows(f, e, heads[i], "the number of heads");
        if (!hf_build_shaped(b, f, i, &v, 2, ne, e)) return false;
    }
    return first == hf_match_view(f).count[0] || hf_match_fail_rows(f, e, first, "all parts");
}

/* Queries and keys have heads of the size that the model projects to. */
HF_OP(rope_pairs_qkv) {
    uint32_t width;
    if (!hf_config_u32_or(b->config, "projection_head_dim", 0, &width, e)) return false;
    if (width == 0) width = b->sizes.head_width;
    const uint64_t heads[3] = {b->sizes.heads, b->sizes.kv_heads, b->sizes.kv_heads};
    hf_view part[3] = {hf_match_view(f), hf_match_view(f), hf_match_view(f)};
    uint64_t first = 0, rows = mul_sat(heads[0] + 2 * heads[1], width);
    if (part[0].n_dims != 2 || part[0].count[0] != rows)
        return hf_match_fail_rows(f, e, rows, "queries, keys and values");
    for (unsigned i = 0; i < 3; first += heads[i++] * width)
        if (!hf_view_cut(&part[i], 0, first, heads[i] * width, 1) ||
            (i < 2 && !view_permute(&part[i], 0, heads[i])))
            return hf_match_fail_rows(f, e, heads[i], "the number of heads");
    return build_three(b, f, part, e);
}

HF_OP(join_qkv) {
    const char *at = strstr(f->source->name, "_proj");
    const char *part = at && at > f->source->name ? memchr("qkv", at[-1], 3) : NULL;
    hf_view v = hf_view_of(f->source);
    if (!part || (v.n_dims != 1 && v.n_dims != 2))
        return hf_match_fail(f, e, "expected a matrix of queries, keys or values, or its bias");
    uint64_t rows = v.count[0], ne[2] = {v.n_dims == 2 ? v.count[1] : 3 * rows, 3 * rows};
    hf_tensor *t = hf_build_tensor(b, f, 0, 3, v.n_dims, ne, e);
    size_t i = at[-1] == 'q' ? 0 : at[-1] == 'k' ? 1 : 2;
    return t && hf_build_piece(f, t, i, &v, e);
}

HF_OP(split_index_qk) {
    uint32_t heads, width;
    if (!hf_config_u32(b->config, "indexer_n_heads", &heads, e) ||
        !hf_config_u32(b->config, "indexer_head_dim", &width, e))
        return false;
    uint64_t rows = f->source->rows, queries = (uint64_t)heads * width;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_view_of(f->source);
        if (v.n_dims != 2 || queries >= rows ||
            !hf_view_cut(&v, 0, i ? queries : 0, i ? rows - queries : queries, 1))
            return hf_match_fail(f, e, "%llu rows, expected more than %llu of queries", LLU(rows),
                                 LLU(queries));
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* ---- latent attention ---- */

/* Rows of keys and values of each head, as many heads as either number. */
static bool op_split_kv_b(hf_build *b, const hf_match *f, uint32_t keys, uint32_t values, uint64_t heads,
                          uint64_t or_heads, gq_error *e) {
    uint64_t both = (uint64_t)keys + values;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_match_view(f);
        uint64_t n = both ? v.count[0] / both : 0;
        if (v.n_dims != 2 || !n || (n != heads && n != or_heads) || !hf_view_split(&v, 0, both) ||
            !hf_view_cut(&v, 1, i ? keys : 0, i ? values : keys, 1))
            return hf_match_fail_rows(f, e, both, "qk_nope_head_dim + v_head_dim");
        if (i == 0) hf_view_swap(&v, 1, 2);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* hy_v4's configs have another number of kv heads. */
HF_OP(split_kv_b) {
    uint32_t keys, values;
    return hf_config_u32(b->config, "qk_nope_head_dim", &keys, e) &&
           hf_config_u32(b->config, "v_head_dim", &values, e) &&
           op_split_kv_b(b, f, keys, values, b->sizes.kv_heads, b->sizes.heads, e);
}

static bool dots3_is_local(const hf_build *b, uint64_t layer) {
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    return layer >= b->config->layers || hf_json_is(json_array_get(kinds, layer), "sliding_attention");
}

HF_OP(split_kv_b_by_layer) {
    bool local = dots3_is_local(b, f->layer);
    uint32_t keys, values, heads;
    return hf_config_u32(b->config, local ? "swa_qk_nope_head_dim" : "qk_nope_head_dim", &keys, e) &&
           hf_config_u32(b->config, local ? "swa_v_head_dim" : "v_head_dim", &values, e) &&
           hf_config_u32(b->config, local ? "swa_num_attention_heads" : "num_attention_heads", &heads, e) &&
           op_split_kv_b(b, f, keys, values, heads, heads, e);
}

HF_OP(scale_latent_norm) {
    bool rescales;
    hf_piece *p = hf_build_whole(b, f, e);
    uint64_t n = f->source->rows * f->source->columns;
    return p && hf_config_bool_or(b->config, "apply_mla_qkv_lora_rescale", false, &rescales, e) &&
           (!rescales || hf_piece_add_op(p, HF_MULTIPLY, sqrt((double)b->sizes.width / (double)n), e));
}

/* ---- gates and adapters ---- */

/* The config counts layers of full attention from 1. */
HF_OP(gate_by_layer) {
    static const arch_rule full = RULE("", "blk.#.attn_gate");
    const json_t *layers = hf_config_get(b->config, "linear_attn_config.full_attn_layers");
    hf_match g = *f;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_integer_value(json_array_get(layers, i)) == (json_int_t)f->layer + 1) g.rule = &full;
    return hf_op_copy(b, &g, e);
}

HF_OP(gate_by_layer_bailing) {
    static const arch_rule full = RULE("", "blk.#.attn_gate");
    hf_match g = *f;
    if (hf_bailing3_is_full(b->config, f->layer)) g.rule = &full;
    return hf_op_copy(b, &g, e);
}

/* permutes: rows are those of heads. */
static bool op_adapters(hf_build *b, const hf_match *f, uint64_t heads, bool permutes, gq_error *e) {
    hf_view v = hf_match_view(f);
    if (v.n_dims != 4 || v.count[1] != 1)
        return hf_match_fail(
            f, e, "its shape is not that of a matrix for each adapter: [adapters, 1, rows, columns]");
    uint64_t ne[3] = {v.count[3], v.count[2], add_sat(v.count[0], 1)};
    if (permutes && !view_permute(&v, 2, heads))
        return hf_match_fail_rows(f, e, heads, "the number of heads");
    hf_tensor *t = hf_build_tensor(b, f, 0, 2, 3, ne, e);
    if (!t || !hf_build_piece(f, t, 1, &v, e)) return false;
    t->pieces[0].n = mul_sat(ne[0], ne[1]);
    return true;
}

HF_OP(prepend_no_adapter) { return op_adapters(b, f, 0, false, e); }
HF_OP(prepend_no_adapter_q) { return op_adapters(b, f, b->sizes.heads, true, e); }
HF_OP(prepend_no_adapter_k) { return op_adapters(b, f, b->sizes.kv_heads, true, e); }
