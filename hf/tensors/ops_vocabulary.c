/* Ops of what has a row for each token, position or class: embeddings, heads, and a draft model's map of tokens. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hf/tensors/tensors.h"

/* ---- the head beside the embedding ---- */

/* Compares the stored bytes of two source tensors. */
static bool sources_same(const hf_source *a, const hf_source *b, bool *same, gq_error *e) {
    enum { PIECE = 1 << 16 };
    /* A head that an adapter changes is a matrix of its own. */
    *same = a->stored->dtype == b->stored->dtype && a->rows == b->rows && a->columns == b->columns &&
            a->deltas.n == 0;
    uint8_t *x = malloc(2 * PIECE);
    bool ok = x || gq_fail_memory(e, 2 * PIECE);
    for (uint64_t at = 0, n; ok && *same && at < a->stored->bytes; at += n) {
        n = a->stored->bytes - at < PIECE ? a->stored->bytes - at : PIECE;
        ok = gq_file_read(&a->list->folder->files[a->stored->file].file, a->stored->offset + at, x, n, e) &&
             gq_file_read(&b->list->folder->files[b->stored->file].file, b->stored->offset + at, x + PIECE, n,
                          e);
        *same = ok && memcmp(x, x + PIECE, n) == 0;
    }
    free(x);
    return ok;
}

/* Compares with the embedding, under any of its names. */
static bool head_same_as_embedding(hf_build *b, const hf_match *f, bool *same, gq_error *e) {
    static const char *const names[] = {"embed_tokens.weight", "embeddings.weight", "embedding.weight",
                                        "wte.weight", "word_embeddings.weight"};
    const hf_source *embedding = NULL;
    *same = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !embedding; i++)
        if (!hf_build_source(b, names[i], &embedding, e)) return false;
    return !embedding || sources_same(f->source, embedding, same, e);
}

HF_OP(omit_equal_head) {
    bool same;
    return head_same_as_embedding(b, f, &same, e) && (same || hf_op_copy(b, f, e));
}

/* The embedding of both sides is stored under one name, or under several. */
HF_OP(omit_repeated_embedding) {
    static const char *const names[] = {"shared.weight", "encoder.embed_tokens.weight",
                                        "decoder.embed_tokens.weight"};
    const hf_source *first = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !first; i++)
        if (!hf_build_source(b, names[i], &first, e)) return false;
    return (first && first != f->source) || hf_op_copy(b, f, e);
}

/* The head has the rows of the embedding: where some of these are cut off or added, so are the head's. */
static hf_op *head_op(const hf_build *b) {
    for (const arch_rule *r = b->arch->rules; r && r->from; r++)
        if (strcmp(r->to, "token_embd") == 0 && (r->op == OP_CUT_ROWS || r->op == OP_PAD_ROWS))
            return r->op == OP_CUT_ROWS ? hf_op_cut_rows : hf_op_pad_rows;
    return hf_op_copy;
}

HF_OP(omit_tied_head) {
    hf_folder *folder = b->list->folder;
    const char *name = f->source->name;
    bool tied, same = false;
    if (!hf_config_bool_or(b->config, "tie_word_embeddings", false, &tied, e)) return false;
    bool by_class = b->config->row->folder.is_tied_by_class &&
                    !hf_config_get(b->config, "tie_word_embeddings|tie_embedding") &&
                    !json_object_get(b->config->stored, "tie_word_embeddings");
    if ((tied || by_class || b->arch->has_no_head) && !head_same_as_embedding(b, f, &same, e)) return false;
    if (same)
        return hf_folder_warn(folder, "", e, "'%s' is a copy of the token embedding: it is left out", name);
    if (tied && b->arch->drops_tied_head)
        return hf_folder_warn(
            folder, "", e,
            "'%s' is left out: it differs from the token embedding, but tie_word_embeddings is true", name);
    if ((tied || by_class) && !b->arch->has_no_head &&
        !hf_folder_warn(
            folder, "", e, "'%s' is used as the output head: it differs from the token embedding, though %s",
            name,
            tied ? "tie_word_embeddings is true"
                 : "config.json lacks tie_word_embeddings, and transformers ties them by default"))
        return false;
    return head_op(b)(b, f, e);
}

/* Reads a matrix for the norms of its columns, and adds the little that keeps a divisor from being 0. Summed in
 * 32 bits from the first row on, as llama.cpp's converter does it. The caller frees them. */
static float *column_norms(const hf_source *s, gq_error *e) {
    uint64_t n = s->columns;
    float *sums = calloc(n ? n : 1, sizeof *sums), *row = malloc((n ? n : 1) * sizeof *row);
    bool ok = (sums && row) || gq_fail_memory(e, n * sizeof *sums);
    for (uint64_t r = 0; ok && r < s->rows; r++) {
        ok = hf_changed_read(s, r, 1, 0, n, tensor_type_of(GGUF_F32), row, e);
        for (uint64_t i = 0; ok && i < n; i++) sums[i] += row[i] * row[i];
    }
    for (uint64_t i = 0; ok && i < n; i++) row[i] = sqrtf(sums[i]) + 1e-7F;
    free(sums);
    if (ok) return row;
    free(row);
    return NULL;
}

/* A head whose model divides it by its columns' norms, if the config says so. */
HF_OP(scale_head_bailing) {
    bool divides;
    if (!hf_config_bool_or(b->config, "norm_head", false, &divides, e)) return false;
    if (!divides) return hf_op_omit_tied_head(b, f, e);
    if (f->source->n_dims != 2)
        return hf_match_fail(f, e, "%u dimensions, expected a matrix", f->source->n_dims);
    float *norms = column_norms(f->source, e);
    hf_piece *p = norms ? hf_build_whole(b, f, e) : NULL;
    if (!p) return free(norms), false;
    p->numbers = norms;
    return true;
}

/* jais multiplies its embedding, and its head by one number or by two. */
HF_OP(scale_jais) {
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

/* ---- rows of tokens and positions ---- */

HF_OP(cut_rows) {
    hf_view v = hf_view_of(f->source);
    if (v.n_dims == 2 && v.count[0] > b->n_tokens && !hf_view_cut(&v, 0, 0, b->n_tokens, 1))
        return hf_match_fail(f, e, "the vocabulary has no tokens");
    return hf_build_view(b, f, 0, &v, e);
}

HF_OP(pad_rows) {
    const hf_source *s = f->source;
    uint32_t rows;
    hf_view v = hf_view_of(s);
    if (!hf_config_u32(b->config, "vocab_size", &rows, e)) return false;
    uint64_t has = v.count[0], columns = v.count[1];
    if (s->n_dims != 2 || has >= rows) return hf_build_whole(b, f, e);
    hf_tensor *t = hf_build_tensor(b, f, 0, 2, 2, (uint64_t[]){columns, rows}, e);
    if (!t || !hf_build_piece(f, t, 0, &v, e)) return false;
    t->pieces[1].n = mul_sat(rows - has, columns);
    return true;
}

/* Positions begin behind the number of the token that fills up texts. */
HF_OP(cut_first_positions) {
    hf_view v = hf_view_of(f->source);
    uint32_t pad;
    if (!hf_config_get(b->config, "pad_token_id")) return hf_op_copy(b, f, e);
    if (!hf_config_u32(b->config, "pad_token_id", &pad, e)) return false;
    uint64_t first = (uint64_t)pad + 1;
    if (v.n_dims != 2 || v.count[0] <= first || !hf_view_cut(&v, 0, first, v.count[0] - first, 1))
        return hf_match_fail(f, e, "expected more rows than pad_token_id + 1");
    return hf_build_view(b, f, 0, &v, e) != NULL;
}

/* Adds up the rows of all parts, which the folder must have. They are of one length, but for a row; the last may be
 * shorter. */
static bool table_rows(hf_build *b, const hf_match *f, uint64_t parts, uint64_t *rows, gq_error *e) {
    uint64_t first = 0;
    *rows = 0;
    for (uint64_t i = 0; i < parts; i++) {
        char name[64];
        const hf_source *s;
        snprintf(name, sizeof name, "ngram_embedding.shard_%llu.weight", LLU(i));
        if (!hf_build_source(b, name, &s, e)) return false;
        if (!s || s->n_dims != 2 || s->columns != f->source->columns)
            return hf_match_fail(
                f, e, "of the table's %llu parts number %llu is missing, or has rows of another length",
                LLU(parts), LLU(i));
        if (i == 0) first = s->rows;
        if (s->rows > first || (s->rows + 1 < first && i + 1 < parts))
            return hf_list_fail(s->list, s->stored, e, "%llu rows, but the table's first part has %llu",
                                LLU(s->rows), LLU(first));
        *rows = add_sat(*rows, s->rows);
    }
    return true;
}

HF_OP(join_table_parts) {
    hf_tensor *t = hf_build_find(b, "per_layer_token_embd.weight");
    hf_view v = hf_view_of(f->source);
    uint32_t parts;
    uint64_t rows = t ? t->tensor.ne[1] : 0;
    if (!hf_config_u32(b->config, "split_ngram_parts", &parts, e)) return false;
    if (f->expert >= parts || parts > b->n_sources)
        return hf_match_fail(f, e, "split_ngram_parts is %u, and this is number %llu", parts, LLU(f->expert));
    if (!t && !table_rows(b, f, parts, &rows, e)) return false;
    if (!t || parts > 1) t = hf_build_tensor(b, f, 0, parts, 2, (uint64_t[]){f->source->columns, rows}, e);
    return t && hf_build_piece(f, t, f->expert, &v, e);
}

/* ---- classifiers ---- */

/* A head has an output for each label. transformers takes two where a config has neither names nor a number. */
static bool classes_check(const hf_build *b, const hf_match *f, gq_error *e) {
    uint64_t n = json_object_size(hf_config_get(b->config, "id2label")), outputs = f->source->shape[0];
    uint32_t number;
    if (!hf_config_u32_or(b->config, "num_labels", 0, &number, e)) return false;
    bool is_said = n || number;
    if (!n) n = number ? number : 2;
    if (f->source->n_dims == 0 || outputs == n || outputs == number) return true;
    return is_said
               ? hf_match_fail(f, e, "%llu outputs, but the config has %llu labels (id2label, num_labels)",
                               LLU(outputs), LLU(n))
               : hf_folder_warn(b->list->folder, "config.json", e,
                                "'%s' has %llu outputs, and nothing says what they are: id2label and "
                                "num_labels are missing, which stands for two labels",
                                f->source->name, LLU(outputs));
}

/* A matrix of one row is a matrix, not a vector that stays F32. */
HF_OP(reshape_classes) {
    size_t had = b->n;
    if (!classes_check(b, f, e) || !hf_op_copy(b, f, e)) return false;
    if (b->n > had && f->source->n_dims == 2) b->tensors[had].tensor.n_dims = 2;
    return true;
}

HF_OP(reshape_classifier) {
    static const arch_rule first = RULE("", "cls");
    hf_match g = *f;
    if (!hf_classifier_labels(b->config)) g.rule = &first;
    return hf_op_reshape_classes(b, &g, e);
}

/* ---- draft models ---- */

static int ids_compare(const void *a, const void *b) {
    int64_t x, y;
    memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Each token of the draft model is another one of the target's. */
static bool ids_check(const hf_match *f, const int64_t *ids, uint64_t n, uint64_t tokens, gq_error *e) {
    int64_t *sorted = malloc((n ? n : 1) * sizeof *sorted), twice = -1;
    if (!sorted) return gq_fail_memory(e, n * sizeof *sorted);
    memcpy(sorted, ids, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ids_compare);
    for (uint64_t i = 1; i < n && twice < 0; i++)
        if (sorted[i] == sorted[i - 1]) twice = sorted[i];
    bool fits = n == 0 || (sorted[0] >= 0 && (uint64_t)sorted[n - 1] < tokens);
    free(sorted);
    if (!fits)
        return hf_match_fail(f, e, "a token of the draft model is not one of the target's %llu", LLU(tokens));
    return twice < 0 || hf_match_fail(f, e, "two tokens of the draft model map to token %lld of the target",
                                      (long long)twice);
}

HF_OP(target_ids) {
    const hf_config *c = b->config;
    uint32_t tokens, of_target;
    uint64_t n = f->source->stored->n, expected = hf_draft_tokens(c);
    if (!hf_config_u32(c, "vocab_size", &tokens, e) ||
        !hf_config_u32_or(c->target ? c->target : c, "vocab_size", tokens, &of_target, e))
        return false;
    if (of_target < tokens) tokens = of_target;
    if (f->source->coding != &hf_plain || n == 0 || n > tokens || (expected && n != expected))
        return hf_match_fail(f, e, "%llu elements, expected %llu, one for each token of the draft model",
                             LLU(n), LLU(expected ? expected : tokens));
    int64_t *ids = hf_ids_read(f, e);
    if (!ids) return false;
    for (uint64_t i = 0; i < n; i++)
        if (__builtin_add_overflow(ids[i], (int64_t)i, &ids[i])) ids[i] = -1;
    if (!ids_check(f, ids, n, tokens, e)) return free(ids), false;
    return hf_build_ids(b, f, GGUF_I64, ids, n, 1, e);
}

HF_OP(omit_targets_head) {
    uint32_t tokens;
    uint64_t own = hf_draft_tokens(b->config);
    if (!hf_config_u32(b->config, "vocab_size", &tokens, e)) return false;
    return !own || own == tokens || hf_op_copy(b, f, e);
}

HF_OP(omit_targets_embedding) {
    bool has;
    return hf_config_bool_or(b->config, "has_embed_tokens", true, &has, e) && (!has || hf_op_copy(b, f, e));
}

/* Centroids of an embedding whose tokens stand in an order of their own. */
HF_OP(omit_with_warning) {
    return hf_folder_warn(b->list->folder, "", e,
                          "'%s' is left out: programs choose among all tokens instead", f->source->name);
}
