/* Steps that one or two architectures have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "hf/arrays/delta.h"
#include "hf/folder/architectures.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/steps.h"

bool hf_step_cut_rows(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims == 2 && v.count[0] > b->n_tokens && !hf_view_cut(&v, 0, 0, b->n_tokens, 1))
        return hf_found_fail(f, e, "the vocabulary has no tokens");
    return hf_build_view(b, f, 0, &v, e);
}

/* Positions begin behind the number of the token that fills up texts. */
bool hf_step_cut_positions(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint32_t pad;
    if (!hf_config_get(b->config, "pad_token_id")) return hf_step_plain(b, f, e);
    if (!hf_config_u32(b->config, "pad_token_id", &pad, e)) return false;
    uint64_t first = (uint64_t)pad + 1;
    if (v.n_dims != 2 || v.count[0] <= first || !hf_view_cut(&v, 0, first, v.count[0] - first, 1))
        return hf_found_fail(f, e, "expected more rows than pad_token_id + 1");
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

bool hf_step_down_experts(hf_build *b, const hf_found *f, gq_error *e) {
    return (f->source->coding == HF_MXFP4 || f->source->n_dims != 3 ? hf_step_plain : hf_step_turned)(b, f,
                                                                                                      e);
}

bool hf_step_of_stack(hf_build *b, const hf_found *f, gq_error *e) {
    hf_found at = *f;
    uint64_t each = b->config->layers / 2, rows = hf_view_of(f->source).count[0];
    unsigned n = hf_found_names(f);
    if (f->layer >= each)
        return hf_found_fail(f, e, "layer %llu, but a stack has %llu", (unsigned long long)f->layer,
                             (unsigned long long)each);
    if (rows % n)
        return hf_found_fail(f, e, "%llu rows, expected a multiple of %u", (unsigned long long)rows, n);
    if (strstr(f->rule->from, ".H_module.")) at.layer += each;
    return hf_build_equal_parts(b, &at, 0, n, e);
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

/* ---- arithmetic ---- */

/* jais multiplies its embedding, and its head by one number or by two. */
bool hf_step_factors_jais(hf_build *b, const hf_found *f, gq_error *e) {
    bool is_head = strcmp(f->rule->to, "output") == 0;
    double factor, second = 1;
    if (!is_head && !hf_config_float(b->config, "mup_embeddings_scale|embeddings_scale", &factor, e))
        return false;
    if (is_head && !hf_config_float(b->config, "mup_output_alpha|width_scale", &factor, e)) return false;
    if (is_head && hf_config_has(b->config, "mup_output_alpha") &&
        !hf_config_float(b->config, "mup_width_scale", &second, e))
        return false;
    return hf_build_with_op(b, f, HF_MULTIPLY, factor * second, e);
}

/* talkie turns its heads in the other direction. */
bool hf_step_turned_back(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view whole = hf_view_of(f->source);
    uint64_t width = b->sizes.head_width, rows = whole.count[0];
    if (whole.n_dims != 2 || width == 0 || width % 2 || rows % width)
        return hf_found_fail(f, e, "%llu rows, expected heads of %llu", (unsigned long long)rows,
                             (unsigned long long)width);
    uint64_t half = width / 2, n = rows / half;
    hf_tensor *t = hf_build_parts(b, f, n, e);
    for (uint64_t i = 0; t && i < n; i++) {
        hf_view v = whole;
        hf_piece *p = hf_view_cut(&v, 0, i * half, half, 1) ? hf_build_piece(f, t, i, &v, e) : NULL;
        if (!p || (i % 2 && !hf_piece_add_op(p, HF_MULTIPLY, -1, e))) return false;
    }
    return t != NULL;
}

/* plamo's query head i has the keys of head i modulo their number; readers give a head of keys to neighbours. These are
 * rows of the queries' matrix, and columns of the output's. */
bool hf_step_tiled_heads(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t shared, dim = strcmp(f->rule->to, "blk.#.attn_output") == 0;
    hf_view v = hf_view_of(f->source);
    uint64_t heads = b->sizes.heads, width = b->sizes.head_width;
    if (!hf_config_u32(b->config, "n_shared_head", &shared, e)) return false;
    if (shared == 0 || heads % shared != 0)
        return hf_config_fail(b->config, e,
                              "num_attention_heads is %llu, expected a multiple of n_shared_head, %u",
                              (unsigned long long)heads, shared);
    if (v.n_dims != 2 || width == 0 || v.count[dim] != heads * width || !hf_view_split(&v, dim, width) ||
        !hf_view_split(&v, dim, heads / shared))
        return hf_found_fail(f, e, "its shape is not that of %llu heads of %llu", (unsigned long long)heads,
                             (unsigned long long)width);
    hf_view_swap(&v, dim, dim + 1);
    return hf_build_reordered(b, f, &v, e);
}

bool hf_step_norm_plamo(hf_build *b, const hf_found *f, gq_error *e) {
    double added = strstr(f->rule->to, "post_attention_norm") ? 1.0 / 5
                   : strstr(f->rule->to, "post_ffw_norm")     ? 1 / (5 * sqrt(5))
                                                              : 1;
    return hf_build_with_op(b, f, HF_ADD, added, e);
}

/* glm4's heads turn pairs of neighbours; with sections for images, readers turn halves. A head's part that does not turn
 * stays. */
bool hf_step_glm_halves(hf_build *b, const hf_found *f, gq_error *e) {
    const json_t *rope = b->config->rope, *part = json_object_get(rope, "partial_rotary_factor");
    double factor = 0.5;
    if (!json_object_get(rope, "mrope_section")) return hf_step_plain(b, f, e);
    if (part && !hf_value_float(b->config, part, "partial_rotary_factor", &factor, e)) return false;
    hf_view whole = hf_view_of(f->source);
    uint64_t heads = strstr(f->rule->to, "attn_q") ? b->sizes.heads : b->sizes.kv_heads;
    uint64_t width = b->sizes.head_width, rows = whole.n_dims ? whole.count[0] : 0,
             turned = factor >= 0 && factor <= 1 ? (uint64_t)((double)width * factor) : 1;
    if (whole.n_dims > 2 || width == 0 || rows != heads * width || turned % 2)
        return hf_found_fail(f, e, "%llu rows, expected %llu heads of %llu, of which an even part turns",
                             (unsigned long long)rows, (unsigned long long)heads, (unsigned long long)width);
    uint64_t n = rows / width;
    unsigned parts = turned < width ? 3 : 2; /* even rows, odd rows, the rest */
    hf_tensor *t = hf_build_parts(b, f, parts * n, e);
    for (uint64_t i = 0; t && i < parts * n; i++) {
        hf_view v = whole;
        uint64_t k = i % parts, at = i / parts * width + (k < 2 ? k : turned);
        if (!hf_view_cut(&v, 0, at, k < 2 ? turned / 2 : width - turned, k < 2 ? 2 : 1))
            return hf_found_fail(f, e, "its rows are no heads");
        if (!hf_build_piece(f, t, i, &v, e)) return false;
    }
    return t != NULL;
}

bool hf_step_choice(hf_build *b, const hf_found *f, gq_error *e) {
    if (f->source->n_dims == 1 && f->source->columns == b->n_experts) return hf_step_plain(b, f, e);
    return hf_found_fail(f, e, "%llu elements, expected one for each of %llu experts",
                         (unsigned long long)f->source->stored->n, (unsigned long long)b->n_experts);
}

/* A head has an output for each label. transformers takes two where a config has neither names nor a number. */
static bool classes_check(const hf_build *b, const hf_found *f, gq_error *e) {
    uint64_t n = json_object_size(hf_config_get(b->config, "id2label")), outputs = f->source->shape[0];
    uint32_t number;
    if (!hf_config_u32_or(b->config, "num_labels", 0, &number, e)) return false;
    bool is_said = n || number;
    if (!n) n = number ? number : 2;
    if (f->source->n_dims == 0 || outputs == n || outputs == number) return true;
    return is_said
               ? hf_found_fail(f, e, "%llu outputs, but the config has %llu labels (id2label, num_labels)",
                               (unsigned long long)outputs, (unsigned long long)n)
               : hf_folder_warn(b->list->folder, "config.json", e,
                                "'%s' has %llu outputs, and nothing says what they are: id2label and "
                                "num_labels are missing, which stands for two labels",
                                f->source->name, (unsigned long long)outputs);
}

/* A matrix of one row is a matrix, not a vector that stays F32. */
bool hf_step_classes(hf_build *b, const hf_found *f, gq_error *e) {
    size_t had = b->n;
    if (!classes_check(b, f, e) || !hf_step_plain(b, f, e)) return false;
    if (b->n > had && f->source->n_dims == 2) b->tensors[had].tensor.n_dims = 2;
    return true;
}

bool hf_step_classifier(hf_build *b, const hf_found *f, gq_error *e) {
    static const arch_rule first = RULE("", "cls");
    hf_found g = *f;
    if (!hf_classifier_labels(b->config)) g.rule = &first;
    return hf_step_classes(b, &g, e);
}

/* deepseek4: [vocabulary, used], in place of a choice by scores. */
bool hf_step_expert_table(hf_build *b, const hf_found *f, gq_error *e) {
    const hf_stored *s = f->source->stored;
    if (f->source->coding != HF_PLAIN || s->n_dims != 2 || s->n == 0)
        return hf_found_fail(f, e, "%u dimensions, expected a matrix: the numbers of each token's experts",
                             s->n_dims);
    int64_t *ids = hf_ids_read(f, e);
    if (!ids) return false;
    for (uint64_t i = 0; i < s->n; i++)
        if (ids[i] < 0 || (uint64_t)ids[i] >= b->n_experts) {
            hf_found_fail(f, e, "token %llu has expert %lld, but there are %llu",
                          (unsigned long long)(i / s->shape[1]), (long long)ids[i],
                          (unsigned long long)b->n_experts);
            return free(ids), false;
        }
    return hf_build_ids(b, f, GGUF_I32, ids, s->n, s->shape[0], e);
}

bool hf_step_choice_by_scores(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t tables;
    return hf_config_u32_or(b->config, "num_hash_layers", 0, &tables, e) &&
           (f->layer < tables || hf_step_choice(b, f, e));
}

/* sarvam: what is added to the router's scores has a mean of 0. */
bool hf_step_zero_mean(hf_build *b, const hf_found *f, gq_error *e) {
    enum { EXPERTS_MOST = 1 << 16 };
    uint64_t n = f->source->stored->n;
    if (f->source->n_dims != 1 || n == 0 || n > EXPERTS_MOST)
        return hf_found_fail(f, e, "expected a vector of at most %d elements", EXPERTS_MOST);
    float *x = malloc(n * sizeof *x), sum = 0;
    bool ok = (x || gq_fail_memory(e, n * sizeof *x)) &&
              hf_list_floats(f->source->list, f->source->stored, 0, n, x, e);
    for (uint64_t i = 0; ok && i < n; i++) sum += x[i];
    free(x);
    return ok && hf_build_with_op(b, f, HF_ADD, -(sum / (float)n), e);
}

/* The mean of an array's absolute values. Sums are of binary64: the converter's differ in the last place. */
static bool mean_absolute(const hf_source *s, float *mean, gq_error *e) {
    enum { STRIP_ELEMENTS = 1 << 16 };
    float *x = malloc(STRIP_ELEMENTS * sizeof *x);
    double sum = 0;
    bool ok = x || gq_fail_memory(e, STRIP_ELEMENTS * sizeof *x);
    uint64_t at_once = s->columns < STRIP_ELEMENTS ? STRIP_ELEMENTS / s->columns : 1;
    for (uint64_t row = 0, rows; ok && row < s->rows; row += rows) {
        rows = min(at_once, s->rows - row);
        for (uint64_t column = 0, n; ok && column < s->columns; column += n) {
            n = min(STRIP_ELEMENTS, s->columns - column);
            ok = hf_changed_read(s, row, rows, column, n, tensor_type_of(GGUF_F32), x, e);
            for (uint64_t i = 0; ok && i < rows * n; i++) sum += fabs((double)x[i]);
        }
    }
    free(x);
    *mean = (float)(sum / (double)s->stored->n);
    return ok && (isfinite(sum) || hf_list_fail(s->list, s->stored, e,
                                                "a weight is not finite, and with it the mean by which all "
                                                "are divided: the file is damaged; download it again"));
}

bool hf_step_ternary(hf_build *b, const hf_found *f, gq_error *e) {
    float mean;
    hf_piece *p = hf_build_whole(b, f, e);
    if (!p || f->source->coding != HF_PLAIN || f->source->stored->n == 0) return p;
    return mean_absolute(f->source, &mean, e) &&
           hf_piece_add_op(p, HF_ROUND_TERNARY, (double)(1 / (mean > 1e-5f ? mean : 1e-5f)), e);
}

/* ---- bailingmoe3 ---- */

bool hf_step_gate_bailing(hf_build *b, const hf_found *f, gq_error *e) {
    static const arch_rule full = RULE("", "blk.#.attn_gate");
    hf_found g = *f;
    if (hf_bailing3_is_full(b->config, f->layer)) g.rule = &full;
    return hf_step_plain(b, &g, e);
}

bool hf_step_exp_column(hf_build *b, const hf_found *f, gq_error *e) {
    hf_view v = hf_view_of(f->source);
    uint64_t ne[2] = {1, f->source->rows * f->source->columns};
    hf_piece *p = hf_build_shaped(b, f, 0, &v, 2, ne, e);
    return p && hf_piece_add_op(p, HF_EXP, 0, e);
}

/* ---- dots3note ---- */

static bool dots3_is_local(const hf_build *b, uint64_t layer) {
    const json_t *kinds = hf_config_get(b->config, "layer_types");
    return layer >= b->config->layers || hf_json_is(json_array_get(kinds, layer), "sliding_attention");
}

bool hf_step_latent_norm(hf_build *b, const hf_found *f, gq_error *e) {
    bool rescales;
    hf_piece *p = hf_build_whole(b, f, e);
    uint64_t n = f->source->rows * f->source->columns;
    return p && hf_config_bool_or(b->config, "apply_mla_qkv_lora_rescale", false, &rescales, e) &&
           (!rescales || hf_piece_add_op(p, HF_MULTIPLY, sqrt((double)b->sizes.width / (double)n), e));
}

bool hf_step_kv_b_layers(hf_build *b, const hf_found *f, gq_error *e) {
    bool local = dots3_is_local(b, f->layer);
    uint32_t keys, values, heads;
    if (!hf_config_u32(b->config, local ? "swa_qk_nope_head_dim" : "qk_nope_head_dim", &keys, e) ||
        !hf_config_u32(b->config, local ? "swa_v_head_dim" : "v_head_dim", &values, e) ||
        !hf_config_u32(b->config, local ? "swa_num_attention_heads" : "num_attention_heads", &heads, e))
        return false;
    uint64_t both = (uint64_t)keys + values;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_view_of(f->source);
        if (v.n_dims != 2 || both == 0 || v.count[0] != both * heads || !hf_view_split(&v, 0, both) ||
            !hf_view_cut(&v, 1, i ? keys : 0, i ? values : keys, 1))
            return hf_found_fail(f, e, "its rows are not those of %u heads of %llu", heads,
                                 (unsigned long long)both);
        if (i == 0) hf_view_swap(&v, 1, 2);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* ---- qwen4exp ---- */

bool hf_step_index_qk(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t heads, width;
    if (!hf_config_u32(b->config, "indexer_n_heads", &heads, e) ||
        !hf_config_u32(b->config, "indexer_head_dim", &width, e))
        return false;
    uint64_t rows = f->source->rows, queries = (uint64_t)heads * width;
    for (unsigned i = 0; i < 2; i++) {
        hf_view v = hf_view_of(f->source);
        if (v.n_dims != 2 || queries >= rows ||
            !hf_view_cut(&v, 0, i ? queries : 0, i ? rows - queries : queries, 1))
            return hf_found_fail(f, e, "%llu rows, expected more than %llu of queries",
                                 (unsigned long long)rows, (unsigned long long)queries);
        if (!hf_build_view(b, f, i, &v, e)) return false;
    }
    return true;
}

/* Adds up the rows of all parts, which the folder must have. They are of one length, but for a row; the last may be
 * shorter. */
static bool table_rows(hf_build *b, const hf_found *f, uint64_t parts, uint64_t *rows, gq_error *e) {
    uint64_t first = 0;
    *rows = 0;
    for (uint64_t i = 0; i < parts; i++) {
        char name[64];
        const hf_source *s;
        snprintf(name, sizeof name, "ngram_embedding.shard_%llu.weight", (unsigned long long)i);
        if (!hf_build_source(b, name, &s, e)) return false;
        if (!s || s->n_dims != 2 || s->columns != f->source->columns)
            return hf_found_fail(
                f, e, "of the table's %llu parts number %llu is missing, or has rows of another length",
                (unsigned long long)parts, (unsigned long long)i);
        if (i == 0) first = s->rows;
        if (s->rows > first || (s->rows + 1 < first && i + 1 < parts))
            return hf_list_fail(s->list, s->stored, e, "%llu rows, but the table's first part has %llu",
                                (unsigned long long)s->rows, (unsigned long long)first);
        *rows = add_sat(*rows, s->rows);
    }
    return true;
}

bool hf_step_table_part(hf_build *b, const hf_found *f, gq_error *e) {
    hf_tensor *t = hf_build_find(b, "per_layer_token_embd.weight");
    hf_view v = hf_view_of(f->source);
    uint32_t parts;
    uint64_t rows = t ? t->tensor.ne[1] : 0;
    if (!hf_config_u32(b->config, "split_ngram_parts", &parts, e)) return false;
    if (f->expert >= parts || parts > b->n_sources)
        return hf_found_fail(f, e, "split_ngram_parts is %u, and this is number %llu", parts,
                             (unsigned long long)f->expert);
    if (!t && !table_rows(b, f, parts, &rows, e)) return false;
    if (!t || parts > 1) t = hf_build_tensor(b, f, 0, parts, 2, (uint64_t[]){f->source->columns, rows}, e);
    return t && hf_build_piece(f, t, f->expert, &v, e);
}
