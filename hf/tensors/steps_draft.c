/* Steps of drafts: what they have of their target's vocabulary, and heads whose rotation has another order. */
#include <stdlib.h>
#include <string.h>

#include "hf/folder/draft.h"
#include "hf/tensors/build_tensor.h"
#include "hf/tensors/steps.h"

/* ---- which tokens of the target's a draft has ---- */

static int ids_compare(const void *a, const void *b) {
    int64_t x, y;
    memcpy(&x, a, sizeof x), memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Each token of the draft is another one of the target's. */
static bool ids_check(const hf_found *f, const int64_t *ids, uint64_t n, uint64_t tokens, gq_error *e) {
    int64_t *sorted = malloc((n ? n : 1) * sizeof *sorted), twice = -1;
    if (!sorted) return gq_fail_memory(e, n * sizeof *sorted);
    memcpy(sorted, ids, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ids_compare);
    for (uint64_t i = 1; i < n && twice < 0; i++)
        if (sorted[i] == sorted[i - 1]) twice = sorted[i];
    bool fits = n == 0 || (sorted[0] >= 0 && (uint64_t)sorted[n - 1] < tokens);
    free(sorted);
    if (!fits)
        return hf_found_fail(f, e, "a token of the draft is none of the %llu of the target",
                             (unsigned long long)tokens);
    return twice < 0 ||
           hf_found_fail(f, e, "two tokens of the draft are token %lld of the target", (long long)twice);
}

bool hf_step_draft_ids(hf_build *b, const hf_found *f, gq_error *e) {
    const hf_config *c = b->config;
    uint32_t tokens, of_target;
    uint64_t n = f->source->stored->n, expected = hf_draft_tokens(c);
    if (!hf_config_u32(c, "vocab_size", &tokens, e) ||
        !hf_config_u32_or(c->target ? c->target : c, "vocab_size", tokens, &of_target, e))
        return false;
    if (of_target < tokens) tokens = of_target;
    if (f->source->coding != HF_PLAIN || n == 0 || n > tokens || (expected && n != expected))
        return hf_found_fail(f, e, "%llu elements, expected %llu, a number for each token of the draft",
                             (unsigned long long)n, (unsigned long long)(expected ? expected : tokens));
    int64_t *ids = hf_ids_read(f, e);
    if (!ids) return false;
    for (uint64_t i = 0; i < n; i++)
        if (__builtin_add_overflow(ids[i], (int64_t)i, &ids[i])) ids[i] = -1;
    if (!ids_check(f, ids, n, tokens, e)) return free(ids), false;
    return hf_build_ids(b, f, GGUF_I64, ids, n, 1, e);
}

/* ---- what is the target's once more ---- */

bool hf_step_draft_head(hf_build *b, const hf_found *f, gq_error *e) {
    uint32_t tokens;
    uint64_t own = hf_draft_tokens(b->config);
    if (!hf_config_u32(b->config, "vocab_size", &tokens, e)) return false;
    return !own || own == tokens || hf_step_plain(b, f, e);
}

bool hf_step_draft_embedding(hf_build *b, const hf_found *f, gq_error *e) {
    bool has;
    return hf_config_bool_or(b->config, "has_embed_tokens", true, &has, e) &&
           (!has || hf_step_plain(b, f, e));
}

/* Centroids of an embedding whose tokens stand in an order of their own. */
bool hf_step_draft_order(hf_build *b, const hf_found *f, gq_error *e) {
    return hf_folder_warn(b->list->folder, "", e,
                          "'%s' is left out: programs that use the draft choose among all tokens instead",
                          f->source->name);
}

/* ---- heads ---- */

bool hf_step_draft_heads(hf_build *b, const hf_found *f, gq_error *e) {
    bool has_halves;
    if (!hf_config_bool_or(b->config, "rope_is_neox_style", true, &has_halves, e)) return false;
    if (has_halves) return hf_step_plain(b, f, e);
    hf_view v = hf_view_of(f->source);
    uint64_t width = b->sizes.head_width;
    if (v.n_dims == 0 || v.n_dims > 2 || width < 2 || width % 2 || !hf_view_split(&v, 0, width) ||
        !hf_view_split(&v, 1, 2))
        return hf_found_fail(f, e, "its rows are no heads of %llu, an even number",
                             (unsigned long long)width);
    hf_view_swap(&v, 1, 2);
    return hf_build_reordered(b, f, &v, e);
}
