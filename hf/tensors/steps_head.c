/* The output matrix, and how it stands to the embedding. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hf/arrays/delta.h"
#include "hf/arrays/names.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/steps.h"

/* Compares the stored bytes of two arrays. */
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
static bool head_same_as_embedding(hf_build *b, const hf_found *f, bool *same, gq_error *e) {
    static const char *const names[] = {"embed_tokens.weight", "embeddings.weight", "embedding.weight",
                                        "wte.weight", "word_embeddings.weight"};
    const hf_source *embedding = NULL;
    *same = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && !embedding; i++)
        if (!hf_build_source(b, names[i], &embedding, e)) return false;
    return !embedding || sources_same(f->source, embedding, same, e);
}

bool hf_step_head_unless_same(hf_build *b, const hf_found *f, gq_error *e) {
    bool same;
    return head_same_as_embedding(b, f, &same, e) && (same || hf_step_plain(b, f, e));
}

/* The embedding of both sides is stored under one name, or under several. */
bool hf_step_embedding_once(hf_build *b, const hf_found *f, gq_error *e) {
    static const char *const names[] = {"shared.weight", "encoder.embed_tokens.weight",
                                        "decoder.embed_tokens.weight"};
    const hf_source *first = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !first; i++)
        if (!hf_build_source(b, names[i], &first, e)) return false;
    return (first && first != f->source) || hf_step_plain(b, f, e);
}

/* The head has the rows of the embedding: where some of these are cut off or added, so are the head's. */
static hf_step *head_step(const hf_build *b) {
    for (const arch_rule *r = b->arch->rules; r && r->from; r++)
        if (strcmp(r->to, "token_embd") == 0 && (r->step == STEP_CUT_ROWS || r->step == STEP_FILL_ROWS))
            return r->step == STEP_CUT_ROWS ? hf_step_cut_rows : hf_step_fill_rows;
    return hf_step_plain;
}

bool hf_step_head(hf_build *b, const hf_found *f, gq_error *e) {
    hf_folder *folder = b->list->folder;
    const char *name = f->source->name;
    bool tied, same = false;
    if (!hf_config_bool_or(b->config, "tie_word_embeddings", false, &tied, e)) return false;
    bool by_class = b->config->row->folder.is_tied_by_class &&
                    !hf_config_get(b->config, "tie_word_embeddings|tie_embedding") &&
                    !json_object_get(b->config->stored, "tie_word_embeddings");
    if ((tied || by_class || b->arch->has_no_head) && !head_same_as_embedding(b, f, &same, e)) return false;
    if (same) return hf_folder_warn(folder, "", e, "'%s' is the embedding once more: it is left out", name);
    if (tied && b->arch->drops_tied_head)
        return hf_folder_warn(folder, "", e,
                              "'%s' is left out: the embedding is the head, as tie_word_embeddings says, "
                              "though this is another matrix",
                              name);
    if ((tied || by_class) && !b->arch->has_no_head &&
        !hf_folder_warn(folder, "", e,
                        "'%s' is kept as the head: it is another matrix than the embedding, though %s", name,
                        tied ? "tie_word_embeddings says that they are one"
                             : "config.json does not say so, and transformers ties them then"))
        return false;
    return head_step(b)(b, f, e);
}

/* Reads a matrix for the norms of its columns, and adds the little that keeps a divisor from being 0. Summed in 32 bits from
 * the first row on, as llama.cpp's converter does it. The caller frees them. */
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
bool hf_step_head_bailing(hf_build *b, const hf_found *f, gq_error *e) {
    bool divides;
    if (!hf_config_bool_or(b->config, "norm_head", false, &divides, e)) return false;
    if (!divides) return hf_step_head(b, f, e);
    if (f->source->n_dims != 2)
        return hf_found_fail(f, e, "%u dimensions, expected a matrix", f->source->n_dims);
    float *norms = column_norms(f->source, e);
    hf_piece *p = norms ? hf_build_whole(b, f, e) : NULL;
    if (!p) return free(norms), false;
    p->numbers = norms;
    return true;
}
