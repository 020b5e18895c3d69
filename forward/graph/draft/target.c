
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "forward/graph/draft/target_parts.h"

const draft_sources *forward_draft_sources(const forward_model *draft) { return &draft->sources; }

void forward_scores_keys(const forward_scores *s, float *rows, size_t stride) {
    const attention_heads *h = s->heads;
    const forward_batch *b = s->batch;
    const float *from[] = {h->k, h->v};
    size_t step[] = {h->k_head_stride, h->v_head_stride}, size[] = {h->head, h->value};
    for (int of = 0; of < 2; of++)
        for (size_t head = 0; head < h->kv_heads; head++)
            for (size_t i = 0; i < size[of]; i++, rows += stride)
                memcpy(rows, from[of] + (head * step[of] + i) * b->stride, b->tokens * sizeof *rows);
}

bool forward_draft_embed(const forward_model *draft, const uint32_t *ids, size_t n, float *y, size_t stride,
                         gq_error *e) {
    const model_tensor *t = draft->sizes.embedding;
    size_t width = t->ne[0];
    float *row = malloc(2 * width * sizeof *row); /* as it is stored, and behind that decoded */
    bool ok = row || gq_fail_memory(e, 2 * width * sizeof *row);
    for (size_t i = 0; ok && i < n; i++) {
        uint64_t id = ids[i] < tensor_rows(t) ? ids[i] : 0; /* such a token is not the draft's to propose */
        ok = model_read_row(draft, t, id, row, row + width, e);
        for (size_t c = 0; ok && c < width; c++) y[c * stride + i] = row[width + c] * draft->embedding_scale;
    }
    free(row);
    return ok;
}

bool forward_draft_fuse(forward_batch *b, const forward_layer *l, const float *x, size_t stride, float *g,
                        size_t g_stride, gq_error *e) {
    const forward_model *m = b->model;
    size_t rows = m->sources.rows;
    bool norms_before = l->plan->weight[WEIGHT_DRAFT_NORM] && !m->norms_fused;
    float *normed = norms_before ? forward_activations(rows, b->stride, e) : NULL;
    if (norms_before && !normed) return false;
    b->layer = l;
    if (normed) batch_norm_slot(b, WEIGHT_DRAFT_NORM, x, stride, rows, normed, b->stride);
    draft_flow f = {normed ? normed : x, g, normed ? b->stride : stride, g_stride};
    bool ok = draft_apply(b, l, WEIGHT_DRAFT_FC, &f, e);
    if (m->norms_fused) batch_norm_slot(b, WEIGHT_DRAFT_NORM, g, g_stride, m->sizes.width, g, g_stride);
    free(normed);
    return ok;
}

/* ---- reading a draft's sources ---- */

void draft_take(forward_model *m, draft_source s) {
    draft_sources *to = &m->sources;
    to->of[to->n++] = s, to->rows += s.rows;
}

void draft_read_layers(forward_model *m, key_reader *r) {
    const char *name = "target_layers";
    const forward_sizes *of = &m->target->sizes;
    key_list layers = key_list_needed(r, name);
    uint64_t n = 1;
    if (key_list_counts(&layers, &n) && (n == 0 || n > DRAFT_SOURCES))
        key_fail(r, name, "has %llu layers, expected 1 to %d", (unsigned long long)n, DRAFT_SOURCES);
    for (size_t i = 0; r->ok && i < n; i++) {
        size_t layer = key_number_at(r, &layers, i, 0, 0, MODEL_MOST);
        if (layer < 1 || layer > of->layers)
            key_fail(r, name, "has %zu, expected layers 1 to %zu, as %s has %zu", layer, of->layers,
                     m->target->path, of->layers);
        draft_take(m, (draft_source){.layer = layer, .rows = of->width});
    }
}

bool draft_apply(forward_batch *b, const forward_layer *l, weight_slot s, const draft_flow *f, gq_error *e) {
    b->layer = l, b->observer = NULL, b->e = e, b->answer = FORWARD_ON, b->unread = false;
    return batch_apply(b, s, 0, f->x, f->stride, f->y, f->y_stride) && !b->unread;
}
