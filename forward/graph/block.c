/* Runs one layer on a batch, and both ends of a model: the embedding before the first layer, the final norm
 * and the logits after the last. A layer is a mixer and a feed-forward part; each reads the state x, or a
 * norm of it, and its result, or a norm of that, is added to x. Where both parts are parallel, the
 * feed-forward part reads the state from before the mixer, or what the mixer gives: run_mixer therefore leaves that part's input in
 * b->normed before it changes x, and such a layer can only be run whole. Which norms and parts a layer has
 * was decided when the model was set up (tensors.c); the parts themselves are behind layer_part.h.
 */
#include <float.h>
#include <string.h>

#include "forward/graph/block.h"
#include "forward/graph/layer.h"
#include "forward/graph/layer_part.h"
#include "forward/graph/states/bank.h"
#include "forward/graph/states/coders.h"
#include "forward/graph/switched.h"

static void begin_call(forward_batch *b, const forward_layer *l, const forward_observer *observer,
                       gq_error *e) {
    b->layer = l, b->observer = observer, b->e = e, b->answer = FORWARD_ON, b->unread = false;
}

/* Whether both parts have to be run in one call. */
static bool is_whole(const layer_spec *l) { return l->is_parallel || l->keeps_start; }

bool forward_model_splits(const forward_model *m) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (is_whole(&m->layers[i])) return false;
    return true;
}

/* Returns the input of a part: the state, or a norm of it. */
static const float *norm_before(forward_batch *b, weight_slot norm, const float *x, size_t *stride) {
    if (norm == WEIGHT_SLOTS) return x;
    batch_norm_slot(b, norm, x, *stride, b->model->sizes.width, b->normed, b->stride);
    *stride = b->stride;
    return b->normed;
}

/* x += residual_scale * b->part, which passes a norm first where the layer has one, or the sum does; times the layer's
 * number for it. in: what the part has read. */
static void close_part(forward_batch *b, weight_slot norm, weight_slot gain, float *x, size_t stride,
                       const float *in, size_t in_stride) {
    size_t width = b->model->sizes.width, s = b->stride;
    bool of_sum = b->model->arch->graph.place == PLACE_SUMS;
    const float *times = b->layer->plan->weight[gain] ? b->layer->values[gain] : NULL;
    if (b->model->input_scale != 0) {
        batch_copy(b, x, stride, in, in_stride, width);
        batch_scale(b, x, stride, width, b->model->input_scale);
    }
    if (norm != WEIGHT_SLOTS && !of_sum) batch_norm_part(b, norm);
    batch_add(b, x, stride, b->part, s, width, b->model->residual_scale * (times ? *times : 1));
    if (of_sum) batch_norm_slot(b, norm, x, stride, width, x, stride);
}

/* Adds the state before the layer once more, and norms that sum. */
static void add_start(forward_batch *b, float *x, size_t stride) {
    size_t width = b->model->sizes.width;
    batch_add(b, x, stride, b->start, b->stride, width, 1);
    batch_norm_slot(b, WEIGHT_ATTN_NORM_2, x, stride, width, x, stride);
}

/* Adds what a second mixer makes of the same input. */
static bool run_beside(forward_batch *b, const float *in, size_t stride) {
    const part_spec *p = &b->layer->plan->beside;
    size_t width = b->model->sizes.width, s = b->stride;
    memcpy(b->first, b->part, width * s * sizeof *b->first);
    if (!p->part->kind->run(b, p, in, stride)) return false;
    batch_add(b, b->part, s, b->first, s, width, 1);
    return true;
}

static bool run_mixer(forward_batch *b, float *x, size_t stride) {
    const layer_spec *l = b->layer->plan;
    const part_spec *p = &l->mixer;
    const part_spec *tail = &l->tail;
    size_t in_stride = stride;
    if (l->entry.part && !l->entry.part->kind->begin(b, &l->entry, x, stride)) return false;
    if (!p->part) return true;
    if (tail->part && tail->part->kind->begin && !tail->part->kind->begin(b, tail, x, stride)) return false;
    if (l->keeps_start || l->adds_start) batch_copy(b, b->start, b->stride, x, stride, b->model->sizes.width);
    const float *in = bank_read(b, WEIGHT_ATTN_RES_SCORE, x, &in_stride);
    in = norm_before(b, p->before, in, &in_stride);
    if (l->entry.part && l->entry.part->kind->flows_in)
        in = l->entry.part->kind->flows_in(b, &l->entry, &in_stride);
    if (!p->part->kind->run(b, p, in, in_stride)) return false;
    if (l->beside.part && !run_beside(b, in, in_stride)) return false;
    if (l->is_parallel && l->ffn.before != p->before) /* else b->normed holds it already */
        batch_norm_slot(b, l->ffn.before, x, stride, b->model->sizes.width, b->normed, b->stride);
    bank_take(b, x, stride);
    close_part(b, p->after, WEIGHT_MIXER_GAIN, x, stride, in, in_stride);
    if (l->reads_given) batch_copy(b, b->normed, b->stride, b->part, b->stride, b->model->sizes.width);
    if (l->adds_start) add_start(b, x, stride);
    return !tail->part || !tail->part->kind->between || tail->part->kind->between(b, tail, x, stride);
}

static bool run_ffn(forward_batch *b, float *x, size_t stride) {
    const layer_spec *l = b->layer->plan;
    const part_spec *p = &l->ffn;
    size_t in_stride = l->is_parallel ? b->stride : stride;
    if (!p->part) return true;
    const float *in = b->normed;
    if (!l->is_parallel)
        in = norm_before(b, p->before, bank_read(b, WEIGHT_FFN_RES_SCORE, x, &in_stride), &in_stride);
    if (!p->part->kind->run(b, p, in, in_stride)) return false;
    close_part(b, p->after, WEIGHT_FFN_GAIN, x, stride, in, in_stride);
    if (l->tail.part && !l->tail.part->kind->run(b, &l->tail, x, stride)) return false;
    if (l->end_scale != 0) batch_scale(b, x, stride, b->model->sizes.width, l->end_scale);
    if (b->layer->ends_loop && l->weight[WEIGHT_LOOP_NORM])
        batch_norm_slot(b, WEIGHT_LOOP_NORM, x, stride, b->model->sizes.width, x, stride);
    return true;
}

bool forward_block(forward_batch *b, const forward_layer *l, forward_part part, float *x, size_t stride,
                   const forward_observer *observer, gq_error *e) {
    const forward_model *m = b->model;
    if (!l->plan || l->model != m) return gq_fail(e, "%s: no layer of this model has been read", m->path);
    if (part != FORWARD_WHOLE && is_whole(l->plan))
        return gq_fail(e, "%s: both parts of layer %zu read the state before it, so it has to be run whole",
                       m->path, l->index);
    if (l->plan->is_idle) return true;
    begin_call(b, l, observer, e);
    b->state = x, b->state_stride = stride;
    coder_half whole = {.x = NULL};
    if (m->sizes.halves) whole = coders_enter(b, l->index, &x, &stride);
    bool ok = ((!(part & FORWARD_ATTENTION) || run_mixer(b, x, stride)) &&
               (!(part & FORWARD_FFN) || run_ffn(b, x, stride))) ||
              b->answer == FORWARD_END;
    if (m->sizes.halves) coders_leave(b, l->index, &whole);
    return ok && !b->unread;
}

/* ---- the ends ---- */

/* Norms all features of x to y by a norm that belongs to no layer; t NULL: without weights. */
static bool norm_end(forward_batch *b, const model_tensor *t, const model_tensor *t_bias, norm_groups g,
                     gq_error *e) {
    const forward_model *m = b->model;
    float *weight = b->part, *bias = b->part + m->sizes.width;
    if (!model_read_values(m, t, b->normed, weight, e) || !model_read_values(m, t_bias, b->normed, bias, e))
        return false;
    g.weight = t ? weight : NULL, g.bias = t_bias ? bias : NULL;
    g.features = m->sizes.width, g.groups = 1;
    batch_norm(b, &g);
    return true;
}

/* Reads rows of the embedding from the file. */
static bool block_read_rows(void *data, const uint32_t *ids, size_t n, float *rows, gq_error *e) {
    const forward_batch *b = data;
    const forward_model *m = b->model;
    const model_tensor *t = m->sizes.embedding;
    for (size_t i = 0; i < n; i++) /* no type stores a row in more bytes than floats take */
        if (!model_read_row(m, t, ids[i], b->part, rows + i * m->sizes.width, e)) return false;
    return true;
}

/* Embeds up to AT_ONCE tokens: their rows are read one after another and become columns of x. */
static bool embed_some(forward_batch *b, const forward_rows *rows, const uint32_t *ids, size_t n, float *x,
                       size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    size_t width = m->sizes.width;
    float *read = b->normed;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= m->sizes.vocabulary)
            return gq_fail(e, "%s: token %u is none of the vocabulary's %zu", m->path, ids[i],
                           m->sizes.vocabulary);
    if (!rows->read(rows->data, ids, n, read, e)) return false;
    for (size_t c = 0; c < width; c++)
        for (size_t i = 0; i < n; i++) x[c * stride + i] = read[i * width + c] * m->embedding_scale;
    return true;
}

/* Adds the rows of the positions to the state of each text. */
static bool embed_positions(forward_batch *b, float *x, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    size_t width = m->sizes.width;
    if (!m->positions) return true;
    if (b->context > m->sizes.trained)
        return gq_fail(e, "%s: tensor %s has %zu positions, too few for windows of %zu tokens", m->path,
                       m->positions->name, m->sizes.trained, b->context);
    for (size_t p = 0; p < b->context; p++) {
        if (!model_read_row(m, m->positions, p, b->part, b->normed, e)) return false;
        for (size_t c = 0; c < width; c++)
            for (size_t i = 0; i < b->n_spans; i++)
                if (p < b->spans[i].tokens) x[c * stride + b->spans[i].first + p] += b->normed[c];
    }
    return true;
}

/* Adds the row of the first kind of token, of which all texts are here. */
static bool embed_kind(forward_batch *b, float *x, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    size_t width = m->sizes.width;
    if (!m->kinds) return true;
    if (!model_read_row(m, m->kinds, 0, b->part, b->normed, e)) return false;
    batch_affine_rows(b, (batch_values){x, width, stride, b->tokens}, NULL, b->normed);
    return true;
}

/* The norm of what was embedded. */
static bool embed_norm(forward_batch *b, float *x, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    return m->arch->graph.embedding_norm == EMBEDDING_AS_IS ||
           norm_end(b, m->embedding_norm, m->embedding_norm_bias,
                    (norm_groups){.x = x, .y = x, .x_stride = stride, .y_stride = stride}, e);
}

/* Lets the parts begin what they carry from layer to layer. */
static bool embed_carried(forward_batch *b, const uint32_t *ids, float *x, size_t stride, gq_error *e) {
    begin_call(b, NULL, NULL, e);
    for (size_t i = 0; i < b->model->n_parts; i++) {
        const model_part *p = &b->model->parts[i];
        if (p->kind->embed && !p->kind->embed(b, p, ids, x, x + p->carried * stride, stride)) return false;
    }
    return true;
}

bool forward_embed(forward_batch *b, const forward_rows *rows, const uint32_t *ids, float *x, size_t stride,
                   gq_error *e) {
    /* Tokens, a line of the cache for each feature. Their rows take the place of the norms of a batch. */
    enum { AT_ONCE = 16 };
    forward_rows own = {block_read_rows, b};
    uint32_t some[AT_ONCE];
    if (b->model->sizes.halves && b->context < 2)
        return gq_fail_usage(e,
                             "windows of one token: of each an encoder reads the first half, so it needs 2");
    for (size_t first = 0; first < b->tokens; first += AT_ONCE) {
        size_t n = b->tokens - first < AT_ONCE ? b->tokens - first : AT_ONCE;
        for (size_t i = 0; i < n; i++) some[i] = switched_id(b->model, coders_id(b, ids, first + i));
        if (!embed_some(b, rows ? rows : &own, some, n, x + first, stride, e)) return false;
    }
    return embed_kind(b, x, stride, e) && embed_positions(b, x, stride, e) && embed_norm(b, x, stride, e) &&
           embed_carried(b, ids, x, stride, e);
}

/* Lets a tail make one state of all that it has carried, in y; *x then is y. */
static bool finish_carried(forward_batch *b, const float **x, size_t *stride, float *y, size_t y_stride) {
    for (size_t i = 0; i < b->model->n_parts; i++) {
        const model_part *p = &b->model->parts[i];
        if (!p->kind->finish) continue;
        if (!p->kind->finish(b, p, *x, *stride, y, y_stride)) return false;
        *x = y, *stride = y_stride;
    }
    return true;
}

bool forward_norm_last(forward_batch *b, const forward_model *of, const float *x, size_t stride,
                       float *normed, size_t normed_stride, gq_error *e) {
    const norm_groups g = {
        .x = x, .y = normed, .x_stride = stride, .y_stride = normed_stride, .centres = of->final_centres};
    if (!of->arch->graph.ends_bare) return norm_end(b, of->output_norm, of->output_norm_bias, g, e);
    if (normed != x) batch_copy(b, normed, normed_stride, x, stride, of->sizes.width);
    return true;
}

bool forward_final(forward_batch *b, const float *x, size_t stride, float *normed, size_t normed_stride,
                   const forward_observer *observer, gq_error *e) {
    const forward_model *m = b->model;
    size_t width = m->sizes.width;
    begin_call(b, NULL, observer, e);
    if (!finish_carried(b, &x, &stride, normed, normed_stride) ||
        !forward_norm_last(b, m, x, stride, normed, normed_stride, e))
        return b->answer == FORWARD_END;
    if (m->sizes.embeds)
        return batch_finite(b, "what is pooled", NULL, normed, normed_stride, width, b->tokens);
    if (m->final_scale != 1) batch_scale(b, normed, normed_stride, width, m->final_scale);
    forward_inputs in = {.weights = {m->sizes.out},
                         .n_weights = 1,
                         .matrices = 1,
                         .x = normed,
                         .features = width,
                         .tokens = b->tokens,
                         .stride = normed_stride};
    if (m->sizes.halves) coders_pick_decoder(b, &in);
    return batch_inputs(b, &in) || b->answer == FORWARD_END;
}

typedef struct logit_rows {
    const forward_model *model;
    const forward_tile *tile;
    float *z;
    size_t stride, tokens;
} logit_rows;

static void finish_logits(void *data, size_t r, int thread) {
    const logit_rows *l = data;
    const forward_model *m = l->model;
    const element_kernels *k = m->elements;
    float *row = l->z + r * l->stride;
    (void)thread;
    if (l->tile->bias) k->add(row, l->tile->bias[l->tile->first + r], l->tokens);
    if (m->sizes.logit_factor != 1) k->scale(row, m->sizes.logit_factor, l->tokens);
    if (m->final_cap != 0) k->cap(row, m->final_cap, l->tokens);
    size_t id = l->tile->first + r;
    const arch_unsaid *unsaid = &m->arch->graph.unsaid;
    if (id >= unsaid->first && id < unsaid->end && m->sizes.vocabulary >= unsaid->end)
        for (size_t i = 0; i < l->tokens; i++) row[i] = -FLT_MAX;
}

bool forward_logits(forward_batch *b, const forward_tile *t, const float *normed, size_t normed_stride,
                    size_t tokens, float *z, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    const model_tensor *out = m->sizes.out;
    if (t->model != m) return gq_fail(e, "%s: the tile is another model's", m->path);
    matmul_weights w = {t->data, out->type->id, t->rows, out->ne[0]};
    matmul_run(b->products, &w, normed, normed_stride, z, stride, tokens);
    threads_for(b->pool, t->rows, THREADS_EVEN, finish_logits, &(logit_rows){m, t, z, stride, tokens});
    return true;
}
