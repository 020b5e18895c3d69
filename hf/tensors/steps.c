/* The steps that serve many architectures. A step makes a view of an array (split, swap, cut: hf/arrays/view.h), in
 * which the last dimension is a row, and gives it to one tensor or several. Sizes that the config and an
 * array disagree on are found by a split or a cut that does not work out.
 */
#include "hf/tensors/steps.h"
#include "hf/arrays/names.h"
#include "hf/folder/architectures.h"
#include "hf/tensors/build_tensor.h"

#include <string.h>

#include "base/checked.h"

const arch_rename hf_common_renames[] = {
    {"e_score_correction_bias", "e_score_correction.bias", AT_END},
    {"language_model.", "", ANYWHERE},
    {".dt_bias", ".dt_proj.bias", AT_END},
    {".expert_bias", ".expert_bias.bias", AT_END},
    {".moe.router_bias", ".moe.router_bias.bias", AT_END},
    {"experts.gate_up_proj", "experts.gate_up_proj.weight", AT_END},
    {"experts.down_proj", "experts.down_proj.weight", AT_END},
    {"experts.gate_up_proj_bias", "experts.gate_up_proj.bias", AT_END},
    {"experts.down_proj_bias", "experts.down_proj.bias", AT_END},
    {".sinks", ".sinks.weight", AT_END},
    {"attention_sink_bias", "attention_sink_bias.weight", AT_END},
    {0},
};

/* Towers that see, hear and speak, and what joins them to the text model. */
const char *const *const hf_common_left_out =
    NAMES("^mlp", "^vit.", "^vpm.", "^siglip2.", "^conformer.", "^merger.", "^resampler.", "^sound_encoder.",
          "^sound_projection.", "^speech_embeddings.", "visual.", "vision.", "audio.", "talker.", "vision_",
          "audio_", "token2wav.", "code2wav.", "projector.", "pre_mm_projector_norm", "image_newline",
          "view_seperator", "patch_embed", "patch_merger.", "patch_merge_mlp", "model.connector.");

/* Fails with the array's shape and the number that does not fit. */
static bool step_fail_rows(const hf_found *f, const char *what, uint64_t n, gq_error *e) {
    return hf_found_fail(f, e, "%llu rows of %llu cannot be parted by %s, which is %llu",
                         (unsigned long long)f->source->rows, (unsigned long long)f->source->columns, what,
                         (unsigned long long)n);
}

static bool step_finish_piece(hf_build *b, const hf_found *f, hf_piece *p, gq_error *e) {
    if (!p) return false;
    bool is_norm = name_ends(f->source->name, "norm.weight") || name_ends(f->rule->to, "nextn.enorm") ||
                   name_ends(f->rule->to, "nextn.hnorm");
    return !b->arch->adds_one || b->norms_have_one || !is_norm ||
           name_ends(f->source->name, "linear_attn.norm.weight") || hf_piece_add_op(p, HF_ADD, 1, e);
}

bool hf_step_plain(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_found_view(f);
    return step_finish_piece(b, f, hf_build_view(b, f, 0, &v, e), e);
}

bool hf_step_drop(hf_build *b, const hf_found *f, gq_error *e) {
    (void)b, (void)f, (void)e;
    return true;
}

/* ---- rows in another order ---- */

/* Reorders the rows of each of `heads` heads of a view's dimension from two halves to pairs. */
static bool view_permute(hf_view *v, uint32_t dim, uint64_t heads) {
    uint64_t rows = v->count[dim], width = heads ? rows / heads : 0;
    if (width == 0 || width % 2 != 0 || rows % heads != 0) return false;
    if (!hf_view_split(v, dim, width) || !hf_view_split(v, dim + 1, width / 2)) return false;
    hf_view_swap(v, dim + 1, dim + 2);
    return true;
}

static bool step_permute(hf_build *b, const hf_found *f, uint64_t heads, gq_error *e) {
    hf_view v = hf_found_view(f);
    if (v.n_dims > 2 || (v.n_dims < 2 && strcmp(f->suffix, ".weight") == 0))
        return hf_found_fail(f, e, "%u dimensions, expected a matrix", v.n_dims);
    if (!view_permute(&v, 0, heads)) return step_fail_rows(f, "the number of heads", heads, e);
    return hf_build_reordered(b, f, &v, e);
}

bool hf_step_permute_q(hf_build *b, const hf_found *f, gq_error *e) {
    return step_permute(b, f, b->sizes.heads, e);
}
bool hf_step_permute_k(hf_build *b, const hf_found *f, gq_error *e) {
    return step_permute(b, f, b->sizes.kv_heads, e);
}

/* chameleon's norms of queries and keys have a row for each part of a cluster, all alike, of which the converter takes
 * the first. */
static bool step_first_turned(hf_build *b, const hf_found *f, uint64_t heads, gq_error *e) {
    uint64_t head = f->source->columns, ne[2] = {head, heads};
    if (f->source->n_dims != 2 || head % 2 != 0)
        return hf_found_fail(f, e, "expected rows of an even number of elements");
    hf_view v = {.n_dims = 3, .count = {heads, head / 2, 2}, .stride = {0, 1, head / 2}};
    return hf_build_shaped(b, f, 0, &v, 2, ne, e) != NULL;
}

bool hf_step_first_turned_q(hf_build *b, const hf_found *f, gq_error *e) {
    return step_first_turned(b, f, b->sizes.heads, e);
}
bool hf_step_first_turned_k(hf_build *b, const hf_found *f, gq_error *e) {
    return step_first_turned(b, f, b->sizes.kv_heads, e);
}

bool hf_step_permute_k_deci(hf_build *b, const hf_found *f, gq_error *e) {
    return step_permute(b, f, hf_deci_kv_heads(b->config, b->sizes.heads, b->sizes.kv_heads, f->layer), e);
}

/* One part of rows that come in groups: `n` rows from `first` on of each group of `group`. */
static bool group_part(hf_view *v, uint64_t group, uint64_t first, uint64_t n) {
    return hf_view_split(v, 0, group) && hf_view_cut(v, 1, first, n, 1);
}

/* Rows in groups of queries, a key, a value: three views. */
static bool qkv_views(const hf_build *b, const hf_found *f, uint64_t groups, hf_view part[3], gq_error *e) {
    uint64_t heads = b->sizes.heads, width = heads ? b->sizes.width / heads : 0;
    if (groups == 0 || heads % groups != 0 || width == 0 ||
        hf_found_view(f).count[0] != (heads + 2 * groups) * width)
        return step_fail_rows(f, "heads, groups and width of heads; groups", groups, e);
    uint64_t queries = heads / groups * width, group = queries + 2 * width;
    const uint64_t first[3] = {0, queries, queries + width}, n[3] = {queries, width, width};
    for (int i = 0; i < 3; i++) {
        part[i] = hf_found_view(f);
        if (!group_part(&part[i], group, first[i], n[i]))
            return step_fail_rows(f, "rows of a group", group, e);
    }
    return true;
}

/* One tensor of three views, in order. */
static bool build_three(hf_build *b, const hf_found *f, const hf_view part[3], gq_error *e) {
    hf_view v = hf_found_view(f);
    uint64_t ne[2] = {v.count[v.n_dims > 1 ? v.n_dims - 1 : 0], v.count[0]};
    hf_tensor *t = hf_build_tensor(b, f, 0, 3, v.n_dims > 1 ? 2 : 1, ne, e);
    for (size_t i = 0; t && i < 3; i++)
        if (!hf_build_piece(f, t, i, &part[i], e)) return false;
    return t != NULL;
}

bool hf_step_qkv_groups(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t groups;
    hf_view part[3] = {0};
    return hf_config_u32_or(b->config, "num_kv_heads|n_head_kv", 1, &groups, e) &&
           qkv_views(b, f, groups ? groups : 1, part, e) && build_three(b, f, part, e);
}

bool hf_step_qkv_heads(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view part[3] = {0};
    return qkv_views(b, f, b->sizes.heads, part, e) && build_three(b, f, part, e);
}

bool hf_step_qkv_groups_3(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view part[3] = {0}, whole = hf_found_view(f);
    if (!qkv_views(b, f, b->sizes.kv_heads, part, e)) return false;
    if (whole.n_dims != 2) return hf_found_fail(f, e, "%u dimensions, expected a matrix", whole.n_dims);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t rows = part[i].count[0] * part[i].count[1],
                 heads = i == 0 ? b->sizes.heads : b->sizes.kv_heads;
        uint64_t width = rows / heads, ne[2] = {whole.count[1], rows};
        /* Within a group the heads stand whole: rows (group, head, width), of which width is permuted. */
        if (!hf_view_split(&part[i], 1, width) ||
            (i < 2 && (width % 2 != 0 || !hf_view_split(&part[i], 2, width / 2))))
            return step_fail_rows(f, "the width of a head", width, e);
        if (i < 2) hf_view_swap(&part[i], 2, 3);
        if (!hf_build_shaped(b, f, i, &part[i], 2, ne, e)) return false;
    }
    return true;
}

/* Rows of several tensors one behind the other. */
static bool step_split_rows(hf_build *b, const hf_found *f, const uint64_t *rows, unsigned n, gq_error *e) {
    uint64_t first = 0;
    for (unsigned i = 0; i < n; first += rows[i++]) {
        hf_view v = hf_found_view(f);
        if (!hf_view_cut(&v, 0, first, rows[i], 1)) return step_fail_rows(f, "rows of a part", rows[i], e);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return first == hf_found_view(f).count[0] || step_fail_rows(f, "rows of all parts", first, e);
}

bool hf_step_split_qkv(hf_build *b, const hf_found *f, gq_error *e) {
    uint64_t width = b->sizes.head_width, kv = b->sizes.kv_heads * width;
    return step_split_rows(b, f, (uint64_t[]){b->sizes.heads * width, kv, kv}, 3, e);
}

bool hf_step_split_qkv_pairs(hf_build *b, const hf_found *f, gq_error *e) {
    uint64_t width = b->sizes.head_width, first = 0;
    const uint64_t heads[3] = {b->sizes.heads, b->sizes.kv_heads, b->sizes.kv_heads};
    for (unsigned i = 0; i < 3; first += heads[i++] * width) {
        hf_view v = hf_found_view(f);
        uint64_t ne[2] = {v.count[v.n_dims - 1], heads[i] * width};
        if (v.n_dims != 2 || !hf_view_cut(&v, 0, first, ne[1], 1) ||
            (i < 2 && !view_permute(&v, 0, heads[i])))
            return step_fail_rows(f, "the number of heads", heads[i], e);
        if (!hf_build_shaped(b, f, i, &v, 2, ne, e)) return false;
    }
    return first == hf_found_view(f).count[0] || step_fail_rows(f, "rows of all parts", first, e);
}

/* Queries and keys have heads of the size that the model projects to. */
bool hf_step_qkv_turned(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t width;
    if (!hf_config_u32_or(b->config, "projection_head_dim", 0, &width, e)) return false;
    if (width == 0) width = b->sizes.head_width;
    const uint64_t heads[3] = {b->sizes.heads, b->sizes.kv_heads, b->sizes.kv_heads};
    hf_view part[3] = {hf_found_view(f), hf_found_view(f), hf_found_view(f)};
    uint64_t first = 0, rows = mul_sat(heads[0] + 2 * heads[1], width);
    if (part[0].n_dims != 2 || part[0].count[0] != rows)
        return step_fail_rows(f, "rows of queries, keys and values", rows, e);
    for (unsigned i = 0; i < 3; first += heads[i++] * width)
        if (!hf_view_cut(&part[i], 0, first, heads[i] * width, 1) ||
            (i < 2 && !view_permute(&part[i], 0, heads[i])))
            return step_fail_rows(f, "the number of heads", heads[i], e);
    return build_three(b, f, part, e);
}

/* permutes: rows are those of heads. */
static bool step_adapters(hf_build *b, const hf_found *f, uint64_t heads, bool permutes, gq_error *e) {
    hf_view v = hf_found_view(f);
    if (v.n_dims != 4 || v.count[1] != 1)
        return hf_found_fail(
            f, e, "its shape is not that of a matrix for each adapter: [adapters, 1, rows, columns]");
    uint64_t ne[3] = {v.count[3], v.count[2], add_sat(v.count[0], 1)};
    if (permutes && !view_permute(&v, 2, heads)) return step_fail_rows(f, "the number of heads", heads, e);
    hf_tensor *t = hf_build_tensor(b, f, 0, 2, 3, ne, e);
    if (!t || !hf_build_piece(f, t, 1, &v, e)) return false;
    t->pieces[0].n = mul_sat(ne[0], ne[1]);
    return true;
}

bool hf_step_adapters(hf_build *b, const hf_found *f, gq_error *e) {
    return step_adapters(b, f, 0, false, e);
}
bool hf_step_adapters_q(hf_build *b, const hf_found *f, gq_error *e) {
    return step_adapters(b, f, b->sizes.heads, true, e);
}
bool hf_step_adapters_k(hf_build *b, const hf_found *f, gq_error *e) {
    return step_adapters(b, f, b->sizes.kv_heads, true, e);
}

bool hf_step_halves(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t dim = f->source->n_dims > 2 ? 1 : 0;
    if (hf_found_view(f).count[dim] % 2) return step_fail_rows(f, "two", 2, e);
    return hf_build_equal_parts(b, f, dim, 2, e);
}

/* ---- experts ---- */

static bool step_stack(hf_build *b, const hf_found *f, uint64_t n, gq_error *e) {
    hf_view v = hf_found_view(f);
    if (n == 0 || f->expert >= n)
        return hf_found_fail(f, e, "number %llu, but the config has %llu", (unsigned long long)f->expert,
                             (unsigned long long)n);
    if (v.n_dims == 0 || v.n_dims > 2)
        return hf_found_fail(f, e, "%u dimensions, expected a matrix", v.n_dims);
    uint64_t ne[3] = {v.count[v.n_dims - 1] * hf_source_unit(f->source), v.n_dims > 1 ? v.count[0] : n, n};
    /* Each piece is an array of its own: a config must not ask for more than there are. */
    size_t had = b->n;
    hf_tensor *t = n <= b->n_sources ? hf_build_tensor(b, f, 0, n, v.n_dims + 1, ne, e) : NULL;
    if (n <= b->n_sources && !t) return false;
    if (b->n > had) b->n_stacked += n;
    if (!t || b->n_stacked > b->n_sources)
        return hf_found_fail(f, e, "the config has %llu experts, but the folder %zu arrays",
                             (unsigned long long)n, b->n_sources);
    return hf_build_piece(f, t, f->expert, &v, e) != NULL;
}

bool hf_step_stack(hf_build *b, const hf_found *f, gq_error *e) { return step_stack(b, f, b->n_experts, e); }
bool hf_step_stack_heads_q(hf_build *b, const hf_found *f, gq_error *e) {
    return step_stack(b, f, b->sizes.heads, e);
}
bool hf_step_stack_heads_k(hf_build *b, const hf_found *f, gq_error *e) {
    return step_stack(b, f, b->sizes.kv_heads, e);
}

bool hf_step_stack_pyramid(hf_build *b, const hf_found *f, gq_error *e) {
    const json_t *list = hf_config_get(b->config, "vision.pyramid_num_routed");
    json_int_t n = json_integer_value(json_array_get(list, f->layer));
    return step_stack(b, f, n > 0 ? (uint64_t)n : 0, e);
}

bool hf_step_stack_pairs(hf_build *b, const hf_found *f, gq_error *e) {
    return step_stack(b, f, b->n_experts / 2, e);
}

/* [E n, d], without a suffix: the rule's name in GGUF has one. */
static bool step_expert_rows(hf_build *b, const hf_found *f, bool turns, gq_error *e) {
    hf_view v = hf_found_view(f);
    uint64_t n = b->n_experts;
    if (v.n_dims != 2 || n == 0 || v.count[0] % n || !hf_view_split(&v, 0, v.count[0] / n))
        return step_fail_rows(f, "the number of experts", n, e);
    if (turns) hf_view_swap(&v, 1, 2);
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

bool hf_step_expert_rows(hf_build *b, const hf_found *f, gq_error *e) {
    return step_expert_rows(b, f, false, e);
}
bool hf_step_expert_rows_turned(hf_build *b, const hf_found *f, gq_error *e) {
    return step_expert_rows(b, f, true, e);
}

bool hf_step_turned(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_found_view(f);
    if (v.n_dims < 2 || b->is_turned) return hf_step_plain(b, f, e);
    hf_view_swap(&v, v.n_dims - 2, v.n_dims - 1);
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

bool hf_step_turned_halves(hf_build *b, const hf_found *f, gq_error *e) {
    if (f->source->n_dims != 3 || hf_found_view(f).count[2] % 2) return step_fail_rows(f, "two", 2, e);
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_found_view(f);
        uint64_t half = v.count[2] / 2;
        hf_view_swap(&v, 1, 2);
        if (!hf_view_cut(&v, 1, i * half, half, 1) || !hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* gate_up_proj [E, d, 2 n] of 16 bits, [E, 2 n, d] of MXFP4, or a bias [E, 2 n]. */
bool hf_step_interleaved(hf_build *b, const hf_found *f, gq_error *e) {
    bool turned = f->source->coding != HF_MXFP4 && f->source->n_dims == 3;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_found_view(f);
        if (turned) hf_view_swap(&v, 1, 2);
        if (v.n_dims < 2 || v.count[1] % 2 || !hf_view_cut(&v, 1, i, v.count[1] / 2, 2))
            return step_fail_rows(f, "two", 2, e);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* ---- latent attention ---- */

bool hf_step_kv_b(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t keys, values;
    if (!hf_config_u32(b->config, "qk_nope_head_dim", &keys, e) ||
        !hf_config_u32(b->config, "v_head_dim", &values, e))
        return false;
    uint64_t both = (uint64_t)keys + values;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_found_view(f);
        uint64_t heads = both ? v.count[0] / both : 0; /* hy_v4's configs have another number of kv heads */
        if (v.n_dims != 2 || !heads || (heads != b->sizes.kv_heads && heads != b->sizes.heads) ||
            !hf_view_split(&v, 0, both) || !hf_view_cut(&v, 1, i ? keys : 0, i ? values : keys, 1))
            return step_fail_rows(f, "qk_nope_head_dim + v_head_dim", both, e);
        if (i == 0) hf_view_swap(&v, 1, 2);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}
