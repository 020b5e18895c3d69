/* Hyper-connections with gates of low rank. A token has several streams of the width, all of them the
 * embedding at first. A sublayer of a layer reads their mean, each normed and through a gate, and what it gives
 * is added to each by a weight. With r, the norms of all streams side by side:
 *
 *     reads  = mean over streams of r sigmoid(up silu(down r / streams))
 *     writes = 2 sigmoid(inject r / streams)
 *
 * Behind the last layer the streams are read once more. They are carried behind the width, whose rows hold
 * what a sublayer reads.
 *
 * Before one layer the streams also get what a table has for the last tokens (ngrams.c). */

#include "forward/graph/residual/residual.h"

typedef struct gated_numbers {
    size_t streams, rank;
    const model_tensor *norm, *down, *up; /* behind the last layer */
    ngram_numbers ngrams;
} gated_numbers;

typedef struct gated_scratch {
    float *writes; /* [streams][stride]: the weights of what the sublayer that is run gives */
    float *values; /* of the last norm */
    void *raw;     /* one of the last matrices, as stored */
    ngram_scratch ngrams;
} gated_scratch;

/* The tensors of a sublayer. */
typedef struct gated_slots {
    weight_slot norm, down, up, inject;
} gated_slots;
static const gated_slots gated_mixer = {WEIGHT_HC_ATTN_NORM, WEIGHT_HC_ATTN_DOWN, WEIGHT_HC_ATTN_UP,
                                        WEIGHT_HC_ATTN_INJECT};
static const gated_slots gated_ffn = {WEIGHT_HC_FFN_NORM, WEIGHT_HC_FFN_DOWN, WEIGHT_HC_FFN_UP,
                                      WEIGHT_HC_FFN_INJECT};

static void gated_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    enum { MOST_STREAMS = 64 };
    gated_numbers *n = p->numbers;
    n->streams = key_number_needed(r, "hyper_connection.count", 2, MOST_STREAMS);
    n->rank = key_number_needed(r, "hyper_connection.low_rank", 1, MODEL_MOST);
    ngrams_read_keys(&n->ngrams, m, r);
}

static void gated_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    gated_numbers *n = p->numbers;
    uint64_t all = n->streams * f->m->sizes.width;
    n->norm = tensors_take(f, "output_hc_norm.weight", REQUIRED, SHAPE(all));
    n->down = tensors_take(f, "output_hc_down.weight", REQUIRED, SHAPE(all, n->rank));
    n->up = tensors_take(f, "output_hc_up.weight", REQUIRED, SHAPE(n->rank, all));
    ngrams_find_table(f, &n->ngrams);
}

static void gated_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const gated_numbers *n = p->sublayer->numbers;
    const gated_slots *sublayers[] = {&gated_mixer, &gated_ffn};
    uint64_t all = n->streams * f->m->sizes.width;
    for (size_t i = 0; i < 2; i++) {
        tensors_take_weight(f, sublayers[i]->norm, REQUIRED, SHAPE(all));
        tensors_take_weight(f, sublayers[i]->down, REQUIRED, SHAPE(all, n->rank));
        tensors_take_weight(f, sublayers[i]->up, REQUIRED, SHAPE(n->rank, all));
        tensors_take_weight(f, sublayers[i]->inject, REQUIRED, SHAPE(all, n->streams));
    }
    if (ngrams_are_read(&n->ngrams, f->index)) ngrams_find_tensors(f, n->streams);
}

/* The streams, and behind them the tokens' ids, where a table is read by them. */
static uint64_t gated_carried_rows(const forward_model *m, const model_sublayer *p, size_t) {
    const gated_numbers *n = p->numbers;
    return (uint64_t)n->streams * m->sizes.width + (n->ngrams.heads > 0);
}

/* The norms of all streams, their gates, what is between of low rank, and the weights for writing. */
static uint64_t gated_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *p) {
    const gated_numbers *n = p->sublayer->numbers;
    uint64_t all = (uint64_t)n->streams * m->sizes.width;
    return max(2 * all + n->rank + n->streams, ngrams_count_rows(&n->ngrams, m, n->streams));
}

static void gated_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const gated_numbers *n = p->numbers;
    gated_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    own->writes = scratch_take(s, n->streams, b->stride, sizeof(float));
    own->values = scratch_take(s, n->streams * b->model->sizes.width, 1, sizeof(float));
    own->raw = scratch_take(s, max(n->norm->size, max(n->down->size, n->up->size)), 1, 1);
    ngrams_lay_out(&n->ngrams, &own->ngrams, s);
}

static bool gated_embed(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *x,
                        float *carried, size_t stride) {
    const gated_numbers *n = p->numbers;
    size_t d = b->model->sizes.width;
    for (size_t i = 0; i < n->streams; i++) batch_copy(b, carried + i * d * stride, stride, x, stride, d);
    for (size_t t = 0; n->ngrams.heads && t < b->tokens; t++)
        carried[n->streams * d * stride + t] = (float)ids[t];
    return true;
}

typedef struct gated_rows {
    const forward_batch *b;
    float *x, *streams; /* one row, and the rows of all streams */
    const float *norms, *gates, *writes;
    size_t n, x_stride, stride;
} gated_rows;

/* x = the mean of the streams' norms times their gates */
static void gated_read_row(void *data, size_t r, int) {
    const gated_rows *g = data;
    size_t d = g->b->model->sizes.width, s = g->b->stride;
    float *x = g->x + r * g->x_stride, share = 1 / (float)g->n;
    for (size_t t = 0; t < g->b->tokens; t++) {
        float sum = g->norms[r * s + t] * g->gates[r * s + t];
        for (size_t i = 1; i < g->n; i++)
            sum += g->norms[(i * d + r) * s + t] * g->gates[(i * d + r) * s + t];
        x[t] = sum * share;
    }
}

/* each stream += x by its weight */
static void gated_write_row(void *data, size_t r, int) {
    const gated_rows *g = data;
    size_t d = g->b->model->sizes.width;
    const float *x = g->x + r * g->x_stride;
    for (size_t i = 0; i < g->n; i++)
        for (size_t t = 0; t < g->b->tokens; t++)
            g->streams[(i * d + r) * g->stride + t] += x[t] * g->writes[i * g->b->stride + t];
}

/* Reads the norms in b->work by what makes gates, to x. */
static void gated_read_by(forward_batch *b, const gated_numbers *n, float *gates, float *x, size_t stride) {
    size_t d = b->model->sizes.width;
    batch_sigmoid_rows(b, gates, n->streams * d);
    threads_for(
        b->pool, d, THREADS_EVEN, gated_read_row,
        &(gated_rows){.b = b, .x = x, .norms = b->work, .gates = gates, .n = n->streams, .x_stride = stride});
}

/* Makes what a sublayer reads, in x, and the weights of what it will give. */
static bool gated_read(forward_batch *b, const sublayer_spec *p, const gated_slots *w, float *x,
                       size_t stride) {
    const gated_numbers *n = p->sublayer->numbers;
    const gated_scratch *own = batch_own(b, p->sublayer);
    size_t s = b->stride, all = n->streams * b->model->sizes.width;
    float *gates = b->work + all * s, *low = gates + all * s, share = 1 / (float)n->streams;
    batch_norm_streams(b, batch_carried(b, p->sublayer), b->residual_stride, b->layer->values[w->norm],
                       b->work, n->streams);
    if (!batch_report_inputs(b, b->work, s, (weight_slot[]){w->down, w->inject, WEIGHT_SLOTS})) return false;
    batch_multiply(b, w->inject, 0, b->work, s, own->writes, s, b->tokens);
    batch_scale(b, own->writes, s, n->streams, share);
    batch_sigmoid_rows(b, own->writes, n->streams);
    batch_scale(b, own->writes, s, n->streams, 2);
    batch_multiply(b, w->down, 0, b->work, s, low, s, b->tokens);
    batch_scale(b, low, s, n->rank, share);
    batch_gate_rows(b, &(activation_rule){.act = ACT_SILU}, batch_rows(b, low, n->rank), NULL, 0);
    if (!batch_apply(b, w->up, 0, low, s, gates, s)) return false;
    gated_read_by(b, n, gates, x, stride);
    return true;
}

/* Adds what a sublayer has given, b->output, to the streams. */
static void gated_write(forward_batch *b, const sublayer_spec *p) {
    const gated_numbers *n = p->sublayer->numbers;
    const gated_scratch *own = batch_own(b, p->sublayer);
    threads_for(b->pool, b->model->sizes.width, THREADS_EVEN, gated_write_row,
                &(gated_rows){.b = b,
                              .x = b->output,
                              .streams = batch_carried(b, p->sublayer),
                              .writes = own->writes,
                              .n = n->streams,
                              .x_stride = b->stride,
                              .stride = b->residual_stride});
}

static bool gated_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    const gated_numbers *n = p->sublayer->numbers;
    const gated_scratch *own = batch_own(b, p->sublayer);
    return (!ngrams_are_read(&n->ngrams, b->layer->index) ||
            ngrams_add(b, &n->ngrams, &own->ngrams, n->streams, batch_carried(b, p->sublayer))) &&
           gated_read(b, p, &gated_mixer, x, stride);
}

static bool gated_between(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    gated_write(b, p);
    return gated_read(b, p, &gated_ffn, x, stride);
}

static bool gated_run(forward_batch *b, const sublayer_spec *p, const float *, size_t) {
    gated_write(b, p);
    return true;
}

/* y = a matrix of the model times x, whose inputs are reported. */
static bool gated_multiply(forward_batch *b, const gated_scratch *own, const model_tensor *t, const float *x,
                           float *y) {
    const forward_model *m = b->model;
    matmul_weights w = {own->raw, t->type->id, t->ne[1], t->ne[0]};
    if (!model_read(m->file, t, 0, t->ne[0] * t->ne[1], own->raw, b->e) ||
        !batch_inputs(b, &(forward_inputs){.weights = {t},
                                           .n_weights = 1,
                                           .matrices = 1,
                                           .x = x,
                                           .features = t->ne[0],
                                           .tokens = b->tokens,
                                           .stride = b->stride}))
        return false;
    matmul_run(b->products, &w, x, b->stride, y, b->stride, b->tokens);
    return true;
}

static bool gated_finish(forward_batch *b, const model_sublayer *p, const float *x, size_t stride, float *y,
                         size_t y_stride) {
    const gated_numbers *n = p->numbers;
    const gated_scratch *own = batch_own(b, p);
    size_t s = b->stride, all = n->streams * b->model->sizes.width;
    float *gates = b->work + all * s, *low = gates + all * s;
    if (!model_read_values(b->model, n->norm, own->raw, own->values, b->e)) return false;
    batch_norm_streams(b, x + p->carried * stride, stride, own->values, b->work, n->streams);
    if (!gated_multiply(b, own, n->down, b->work, low)) return false;
    batch_scale(b, low, s, n->rank, 1 / (float)n->streams);
    batch_gate_rows(b, &(activation_rule){.act = ACT_SILU}, batch_rows(b, low, n->rank), NULL, 0);
    if (!gated_multiply(b, own, n->up, low, gates)) return false;
    gated_read_by(b, n, gates, y, y_stride);
    return true;
}

const sublayer_kind tail_gated = {
    .model_bytes = sizeof(gated_numbers),
    .read_keys = gated_read_keys,
    .find_model_tensors = gated_find_model_tensors,
    .find_tensors = gated_find_tensors,
    .carried_rows = gated_carried_rows,
    .embed = gated_embed,
    .scratch_rows = gated_count_rows,
    .lay_out = gated_lay_out,
    .begin = gated_begin,
    .between = gated_between,
    .run = gated_run,
    .finish = gated_finish,
};
