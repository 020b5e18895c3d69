/* One layer, the embedding before the first and the logits after the last. */
#include <string.h>

#include "forward/batch.h"

static bool begin_call(forward_batch *b, const forward_layer *l, const forward_site *site, gq_error *e) {
    b->layer = l, b->site = site, b->e = e;
    return true;
}

/* What the first part reads: the state, or a norm of it. */
static const float *before_attention(forward_batch *b, const float *x, size_t *stride) {
    const layer_plan *l = b->layer->plan;
    slot norm = l->weight[ATTN_NORM_2] ? ATTN_NORM_2 : ATTN_NORM;
    if (!l->weight[norm]) return x;
    batch_norm_slot(b, norm, x, *stride, b->model->sizes.width, b->normed, b->stride);
    *stride = b->stride;
    return b->normed;
}

/* Where both parts read the state before either: the norm that the second reads through; SLOTS: it comes
 * after the first. */
static slot parallel_norm(const forward_batch *b) {
    const architecture *a = b->model->arch;
    if (b->model->parallel_own) return FFN_NORM;
    if (a->place == PLACE_PARALLEL) return ATTN_NORM;
    return a->parallel_without_ffn_norm && !b->layer->plan->weight[FFN_NORM] ? ATTN_NORM : SLOTS;
}

static slot inner_norm(placement place) {
    return place == PLACE_PAN ? POST_ATTENTION_NORM : place == PLACE_POST ? SLOTS : FFN_NORM;
}

/* x += r * part, after a norm of it where the row has one. */
static void close_part(forward_batch *b, slot norm, float *x, size_t stride) {
    size_t width = b->model->sizes.width, s = b->stride;
    if (norm != SLOTS) batch_norm_slot(b, norm, b->part, s, width, b->part, s);
    batch_add(b, x, stride, b->part, s, width, b->model->residual_scale);
}

bool forward_block(forward_batch *b, const forward_layer *l, float *x, size_t stride,
                   const forward_site *site, gq_error *e) {
    const forward_model *m = b->model;
    placement place = m->arch->place;
    bool after = place == PLACE_SANDWICH || place == PLACE_POST;
    size_t width = m->sizes.width, s = b->stride, in_stride = stride;
    if (!l->plan || l->model != m) return gq_fail(e, "%s: no layer of this model has been read", m->path);
    begin_call(b, l, site, e);
    const float *in = before_attention(b, x, &in_stride);
    if (!(m->latent ? batch_latent_attention(b, in, in_stride) : batch_attention(b, in, in_stride)))
        return false;
    slot norm = parallel_norm(b);
    bool parallel = norm != SLOTS;
    if (parallel && (norm != ATTN_NORM || l->plan->weight[ATTN_NORM_2])) /* else it is there already */
        batch_norm_slot(b, norm, x, stride, width, b->normed, s);
    close_part(b, after ? POST_ATTENTION_NORM : SLOTS, x, stride);
    in = b->normed, in_stride = s;
    if (!parallel && inner_norm(place) == SLOTS)
        in = x, in_stride = stride;
    else if (!parallel)
        batch_norm_slot(b, inner_norm(place), x, stride, width, b->normed, s);
    if (!(l->plan->routed ? batch_experts(b, in, in_stride) : batch_ffn(b, in, in_stride))) return false;
    close_part(b, after ? POST_FFW_NORM : SLOTS, x, stride);
    return true;
}

/* ---- the ends ---- */

/* Sixteen tokens' rows, decoded one after another, become columns. */
static bool embed_some(const forward_model *m, const uint32_t *ids, size_t n, void *raw, float *rows,
                       float *x, size_t stride, gq_error *e) {
    const gguf_tensor *t = m->sizes.embedding;
    size_t width = m->sizes.width;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= m->sizes.vocabulary)
            return gq_fail(e, "%s: token %u is none of the vocabulary's %zu", m->path, ids[i],
                           m->sizes.vocabulary);
        if (!gguf_model_read(m->file, t, ids[i] * (uint64_t)width, width, raw, e)) return false;
        m->codecs->codecs[t->type->id].decode(raw, rows + i * width, width);
    }
    for (size_t c = 0; c < width; c++)
        for (size_t i = 0; i < n; i++) x[c * stride + i] = rows[i * width + c] * m->embedding_scale;
    return true;
}

bool forward_embed(forward_batch *b, const uint32_t *ids, float *x, size_t stride, gq_error *e) {
    enum { AT_ONCE = 16 }; /* a line of the cache; rows of sixteen tokens are where a batch's norms will be */
    const forward_model *m = b->model;
    float *rows = b->normed;
    void *raw = b->part; /* a row, which no type stores in more bytes than floats take */
    for (size_t first = 0; first < b->tokens; first += AT_ONCE) {
        size_t n = b->tokens - first < AT_ONCE ? b->tokens - first : AT_ONCE;
        if (!embed_some(m, ids + first, n, raw, rows, x + first, stride, e)) return false;
    }
    return true;
}

static bool read_final_norm(forward_batch *b, float **weight, float **bias, gq_error *e) {
    const forward_model *m = b->model;
    void *raw = b->normed;
    *weight = b->part, *bias = m->output_norm_bias ? b->part + m->sizes.width : NULL;
    return model_read_values(m, m->output_norm, raw, *weight, e) &&
           model_read_values(m, m->output_norm_bias, raw, *bias, e);
}

bool forward_final(forward_batch *b, const float *x, size_t stride, float *normed, size_t normed_stride,
                   const forward_site *site, gq_error *e) {
    const forward_model *m = b->model;
    float *weight, *bias;
    begin_call(b, NULL, site, e);
    if (!read_final_norm(b, &weight, &bias, e)) return false;
    batch_norm(b, &(norm_groups){x, weight, bias, normed, stride, normed_stride, m->sizes.width, 1, 0});
    return batch_inputs(b, &(forward_inputs){.weights = {m->sizes.out},
                                             .n_weights = 1,
                                             .matrices = 1,
                                             .x = normed,
                                             .features = m->sizes.width,
                                             .tokens = b->tokens,
                                             .stride = normed_stride});
}

bool forward_logits(forward_batch *b, const forward_tile *t, const float *normed, size_t normed_stride,
                    size_t tokens, float *z, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    const element_kernels *k = m->elements;
    const gguf_tensor *out = m->sizes.out;
    if (t->model != m) return gq_fail(e, "%s: the tile is another model's", m->path);
    matmul_weights w = {t->data, out->type->id, t->rows, out->ne[0], gguf_type_bytes(out->type, out->ne[0])};
    matmul_run(b->products, &w, normed, normed_stride, z, stride, tokens);
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < t->rows; r++) {
        float *row = z + r * stride;
        if (t->bias) k->add(row, t->bias[t->first + r], tokens);
        if (m->logit_factor != 1) k->scale(row, m->logit_factor, tokens);
        if (m->final_cap != 0) k->cap(row, m->final_cap, tokens);
    }
    return true;
}
