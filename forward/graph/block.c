/* Runs one layer on a batch, and both ends of a model: the embedding before the first layer, the final norm
 * and the logits after the last. A layer is a mixer and a feed-forward sublayer (FFN). Each reads the residual
 * stream x, or a norm of it, and its output, or a norm of that, is added to x:
 *
 *     run_mixer   input = norm(x);  x += mixer(input);  hands on the FFN's input, if it is not x (ffn_input)
 *     run_ffn     input = what run_mixer returned, or norm(x);  x += ffn(input)
 *
 * A layer whose FFN does not read x alone can only be run whole. Norms and sublayers were chosen when the model
 * was set up (find_norms in tensors.c); the sublayers themselves are behind sublayer.h. */
#include "forward/graph/block.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/residual/residual.h"

static void begin_call(forward_batch *b, const forward_layer *l, const forward_observer *observer,
                       gq_error *e) {
    b->layer = l, b->observer = observer, b->e = e, b->answer = FORWARD_ON, b->unread = false;
}

/* Whether both sublayers have to be run in one call: the FFN needs more than the residual stream behind the
 * mixer. */
static bool is_whole(const layer_spec *l) { return layer_is_parallel(l) || l->ffn_needs_start; }

bool forward_model_splits(const forward_model *m) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (is_whole(&m->layers[i])) return false;
    return true;
}

/* The input of a sublayer: [width][stride]. */
typedef struct sublayer_input {
    const float *x;
    size_t stride;
} sublayer_input;

/* Returns a sublayer's input behind its norm, in b->normed; without a norm the input itself. */
static sublayer_input norm_before(forward_batch *b, weight_slot norm, sublayer_input in) {
    if (norm == WEIGHT_SLOTS) return in;
    batch_norm_slot(b, norm, in.x, in.stride, b->model->sizes.width, b->normed, b->stride);
    return (sublayer_input){b->normed, b->stride};
}

/* x += residual_scale * gain * b->output. The layer's norm of the output is applied to b->output, or with
 * PLACE_SUMS to the sum. in: what the sublayer has read. */
static void add_output(forward_batch *b, weight_slot norm, weight_slot gain, float *x, size_t stride,
                       sublayer_input in) {
    size_t width = b->model->sizes.width, s = b->stride;
    bool of_sum = b->model->arch->graph.place == PLACE_SUMS;
    const float *times = b->layer->plan->weight[gain] ? b->layer->values[gain] : NULL;
    if (b->model->input_scale != 0) {
        batch_copy(b, x, stride, in.x, in.stride, width);
        batch_scale(b, x, stride, width, b->model->input_scale);
    }
    if (norm != WEIGHT_SLOTS && !of_sum) batch_norm_output(b, norm);
    batch_add(b, x, stride, b->output, s, width, b->model->residual_scale * (times ? *times : 1));
    if (of_sum) batch_norm_slot(b, norm, x, stride, width, x, stride);
}

/* b->output += the output of the layer's second mixer for the same input. */
static bool run_beside(forward_batch *b, sublayer_input in) {
    const sublayer_spec *p = &b->layer->plan->beside;
    size_t width = b->model->sizes.width, s = b->stride;
    memcpy(b->first_mixed, b->output, width * s * sizeof *b->first_mixed);
    if (!p->sublayer->kind->run(b, p, in.x, in.stride)) return false;
    batch_add(b, b->output, s, b->first_mixed, s, width, 1);
    return true;
}

/* x becomes the residual stream behind the mixer. *ffn: what the FFN reads, where that is not x; else it
 * stays. */
static bool run_mixer(forward_batch *b, float *x, size_t stride, sublayer_input *ffn) {
    const layer_spec *l = b->layer->plan;
    const sublayer_spec *p = &l->mixer, *tail = &l->tail;
    size_t width = b->model->sizes.width, s = b->stride;
    if (l->entry.sublayer && !l->entry.sublayer->kind->begin(b, &l->entry, x, stride)) return false;
    if (!p->sublayer) return true;
    if (tail->sublayer && tail->sublayer->kind->begin && !tail->sublayer->kind->begin(b, tail, x, stride))
        return false;
    if (l->ffn_needs_start || l->adds_start) batch_copy(b, b->start, s, x, stride, width);
    sublayer_input in = {x, stride};
    in.x = bank_read(b, WEIGHT_ATTN_RES_SCORE, x, &in.stride);
    in = norm_before(b, p->before, in);
    if (l->entry.sublayer && l->entry.sublayer->kind->flows_in)
        in.x = l->entry.sublayer->kind->flows_in(b, &l->entry, &in.stride);
    if (!p->sublayer->kind->run(b, p, in.x, in.stride)) return false;
    if (l->beside.sublayer && !run_beside(b, in)) return false;
    if (l->ffn_reads ==
        FFN_READS_START) { /* before x changes; a norm that both sublayers share is in b->normed */
        if (l->ffn.before != p->before) norm_before(b, l->ffn.before, (sublayer_input){x, stride});
        *ffn = (sublayer_input){b->normed, s};
    }
    bank_take(b, x, stride);
    add_output(b, p->after, WEIGHT_MIXER_GAIN, x, stride, in);
    if (l->ffn_reads == FFN_READS_MIXER) { /* the FFN writes b->output */
        batch_copy(b, b->normed, s, b->output, s, width);
        *ffn = (sublayer_input){b->normed, s};
    }
    if (l->adds_start) {
        batch_add(b, x, stride, b->start, s, width, 1);
        batch_norm_slot(b, WEIGHT_ATTN_NORM_2, x, stride, width, x, stride);
    }
    return !tail->sublayer || !tail->sublayer->kind->between ||
           tail->sublayer->kind->between(b, tail, x, stride);
}

/* x becomes the residual stream behind the layer. in: what the FFN reads; in.x NULL: x. */
static bool run_ffn(forward_batch *b, float *x, size_t stride, sublayer_input in) {
    const layer_spec *l = b->layer->plan;
    const sublayer_spec *p = &l->ffn;
    size_t width = b->model->sizes.width;
    if (!p->sublayer) return true;
    if (!in.x) {
        in = (sublayer_input){x, stride};
        in.x = bank_read(b, WEIGHT_FFN_RES_SCORE, x, &in.stride);
        in = norm_before(b, p->before, in);
    }
    if (!p->sublayer->kind->run(b, p, in.x, in.stride)) return false;
    add_output(b, p->after, WEIGHT_FFN_GAIN, x, stride, in);
    if (l->tail.sublayer && !l->tail.sublayer->kind->run(b, &l->tail, x, stride)) return false;
    if (l->end_scale != 0) batch_scale(b, x, stride, width, l->end_scale);
    if (b->layer->ends_loop && l->weight[WEIGHT_LOOP_NORM])
        batch_norm_slot(b, WEIGHT_LOOP_NORM, x, stride, width, x, stride);
    return true;
}

bool forward_block(forward_batch *b, const forward_layer *l, forward_sublayers which, float *x, size_t stride,
                   const forward_observer *observer, gq_error *e) {
    const forward_model *m = b->model;
    if (!l->plan || l->model != m) return gq_fail(e, "%s: no layer of this model has been read", m->path);
    if (which != FORWARD_WHOLE && is_whole(l->plan))
        return gq_fail(e, "%s: layer %zu cannot be run one sublayer at a time: both read its input", m->path,
                       l->index);
    if (l->plan->is_idle) return true;
    begin_call(b, l, observer, e);
    b->residual = x, b->residual_stride = stride;
    coder_half whole = {.x = NULL};
    if (m->sizes.halves) whole = coders_enter(b, l->index, &x, &stride);
    sublayer_input ffn = {.x = NULL};
    bool ok = ((!(which & FORWARD_ATTENTION) || run_mixer(b, x, stride, &ffn)) &&
               (!(which & FORWARD_FFN) || run_ffn(b, x, stride, ffn))) ||
              b->answer == FORWARD_END;
    if (m->sizes.halves) coders_leave(b, l->index, &whole);
    return ok && !b->unread;
}

/* ---- the ends ---- */

/* Norms all features of x to y by a norm that belongs to no layer; t NULL: without weights. */
static bool norm_end(forward_batch *b, const model_tensor *t, const model_tensor *t_bias, norm_groups g,
                     gq_error *e) {
    const forward_model *m = b->model;
    float *weight = b->output, *bias = b->output + m->sizes.width;
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
        if (!model_read_row(m, t, ids[i], b->output, rows + i * m->sizes.width, e)) return false;
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
            return gq_fail(e, "%s: token id %u is out of range, expected less than %zu", m->path, ids[i],
                           m->sizes.vocabulary);
    if (!rows->read(rows->data, ids, n, read, e)) return false;
    for (size_t c = 0; c < width; c++)
        for (size_t i = 0; i < n; i++) x[c * stride + i] = read[i * width + c] * m->embedding_scale;
    return true;
}

/* Adds the rows of the positions to the hidden states of each text. */
static bool embed_positions(forward_batch *b, float *x, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    size_t width = m->sizes.width;
    if (!m->positions) return true;
    if (b->context > m->sizes.trained)
        return gq_fail(e, "%s: tensor %s has %zu positions, too few for windows of %zu tokens", m->path,
                       m->positions->name, m->sizes.trained, b->context);
    for (size_t p = 0; p < b->context; p++) {
        if (!model_read_row(m, m->positions, p, b->output, b->normed, e)) return false;
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
    if (!model_read_row(m, m->kinds, 0, b->output, b->normed, e)) return false;
    batch_affine_rows(b, (batch_values){x, width, stride, b->tokens}, NULL, b->normed);
    return true;
}

/* The norm of what was embedded. */
static bool embed_norm(forward_batch *b, float *x, size_t stride, gq_error *e) {
    const forward_model *m = b->model;
    return m->arch->graph.embedding_norm == EMBEDDING_AS_IS ||
           norm_end(b, m->embedding_norm, m->embedding_norm_bias, (norm_groups){.y = x, .y_stride = stride},
                    e);
}

/* Lets the sublayers begin what they carry from layer to layer. */
static bool embed_carried(forward_batch *b, const uint32_t *ids, float *x, size_t stride, gq_error *e) {
    begin_call(b, NULL, NULL, e);
    for (size_t i = 0; i < b->model->n_sublayers; i++) {
        const model_sublayer *p = &b->model->sublayers[i];
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
        return gq_fail_usage(
            e, "windows of one token, expected at least 2: the encoder reads the first half of each");
    for (size_t first = 0; first < b->tokens; first += AT_ONCE) {
        size_t n = b->tokens - first < AT_ONCE ? b->tokens - first : AT_ONCE;
        for (size_t i = 0; i < n; i++) some[i] = switched_id(b->model, coders_id(b, ids, first + i));
        if (!embed_some(b, rows ? rows : &own, some, n, x + first, stride, e)) return false;
    }
    return embed_kind(b, x, stride, e) && embed_positions(b, x, stride, e) && embed_norm(b, x, stride, e) &&
           embed_carried(b, ids, x, stride, e);
}

/* Lets a tail combine all that it has carried into one hidden state, in y; *x then is y. */
static bool finish_carried(forward_batch *b, const float **x, size_t *stride, float *y, size_t y_stride) {
    for (size_t i = 0; i < b->model->n_sublayers; i++) {
        const model_sublayer *p = &b->model->sublayers[i];
        if (!p->kind->finish) continue;
        if (!p->kind->finish(b, p, *x, *stride, y, y_stride)) return false;
        *x = y, *stride = y_stride;
    }
    return true;
}

bool forward_norm_last(forward_batch *b, const forward_model *of, const float *x, size_t stride,
                       float *normed, size_t normed_stride, gq_error *e) {
    const norm_groups g = {
        .x = x, .y = normed, .x_stride = stride, .y_stride = normed_stride, .centers = of->final_centers};
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
        return batch_finite(b, "the pooled hidden state", NULL, normed, normed_stride, width, b->tokens);
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

static void finish_logits(void *data, size_t r, int) {
    const logit_rows *l = data;
    const forward_model *m = l->model;
    const element_kernels *k = m->elements;
    float *row = l->z + r * l->stride;
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

/* ---- pooling in embedding models: a vector for each window ---- */

/* Pools a window whose first state is x; feature c is at x[c * stride]. */
static void pool_window(const forward_batch *b, const float *x, size_t stride, double *to) {
    size_t n = b->context;
    forward_pooling kind = b->model->sizes.pooling; /* mean, first or last */
    for (size_t c = 0; c < b->model->sizes.width; c++, x += stride) {
        double sum = 0;
        for (size_t i = 0; kind == POOL_MEAN && i < n; i++) sum += (double)x[i];
        to[c] = kind == POOL_MEAN ? sum / (double)n : (double)x[kind == POOL_FIRST ? 0 : n - 1];
    }
}

/* Multiplies n vectors of the matrix's columns: to[n][rows]. A row is read and decoded for all of them. */
static bool pool_multiply(const forward_model *m, const model_tensor *t, const double *x, size_t n,
                          double *to, gq_error *e) {
    size_t columns = t->ne[0], rows = t->ne[1];
    memory_ledger l = {.failed = false};
    void *raw = memory_take(&l, model_row_bytes(t), 1);
    float *row = memory_take(&l, columns, sizeof *row);
    bool ok = memory_had(&l, e);
    for (size_t r = 0; ok && r < rows; r++) {
        ok = model_read_row(m, t, r, raw, row, e);
        for (size_t i = 0; ok && i < n; i++) {
            double sum = 0;
            for (size_t c = 0; c < columns; c++) sum += (double)row[c] * x[i * columns + c];
            to[i * rows + r] = sum;
        }
    }
    free(raw), free(row);
    return ok;
}

/* Adds a bias, a row of F32, to n vectors. */
static bool pool_add(const forward_model *m, const model_tensor *bias, size_t n, double *to, gq_error *e) {
    size_t width = bias->ne[0];
    memory_ledger l = {.failed = false};
    void *raw = memory_take(&l, model_row_bytes(bias), 1);
    float *row = memory_take(&l, width, sizeof *row);
    bool ok = memory_had(&l, e) && model_read_row(m, bias, 0, raw, row, e);
    for (size_t i = 0; ok && i < n * width; i++) to[i] += (double)row[i % width];
    free(raw), free(row);
    return ok;
}

bool forward_pool(forward_batch *b, const float *normed, size_t stride, double *to, gq_error *e) {
    const forward_model *m = b->model;
    size_t most = m->sizes.width, n = b->windows;
    for (size_t i = 0; i < m->n_dense; i++) most = max(most, m->dense[i]->ne[1]);
    memory_ledger l = {.failed = false};
    double *x = memory_take(&l, mul_sat(n, most), sizeof *x),
           *y = memory_take(&l, mul_sat(n, most), sizeof *y);
    bool ok = memory_had(&l, e);
    for (size_t w = 0; ok && w < n; w++)
        pool_window(b, normed + w * b->context, stride, x + w * m->sizes.width);
    for (size_t i = 0; ok && i < m->n_dense; i++) {
        ok = pool_multiply(m, m->dense[i], x, n, y, e) &&
             (i > 0 || !m->dense_bias || pool_add(m, m->dense_bias, n, y, e));
        double *swap = x;
        x = y, y = swap;
    }
    if (ok) memcpy(to, x, n * m->sizes.embedded * sizeof *to);
    free(x), free(y);
    return ok;
}
