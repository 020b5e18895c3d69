/* Hyper-connections (Zhu et al. 2024, arXiv:2409.19606). A token has several streams of the width, all of them
 * the embedding at first. A sublayer of a layer reads their sum by weights, and what it gives is added to each
 * stream by a weight. The weights are made of the norm of all streams together, r, by a matrix and sigmoids:
 *
 *     reads  = sigmoid(scale_0 fn r + base) + epsilon
 *     writes = magnitude sigmoid(scale_1 fn r + base) + epsilon
 *
 * Where streams are mixed, writes are 2 sigmoid(scale_1 fn r + base), and before a stream takes in what a
 * sublayer gives it becomes a sum of all streams by weights: of scale_2 fn r + base, a matrix with a row for
 * each stream from which something flows, a softmax along each row, to which epsilon is added. Then columns and
 * rows are divided by their sums (and epsilon) by turns, a given number of rounds.
 *
 * Behind the last layer the streams are summed up in the same way as for reading, or their mean is taken. They
 * are carried behind the width, whose rows hold what a sublayer reads. */
#include <string.h>

#include "forward/graph/sublayer.h"

typedef struct hyper_numbers {
    size_t streams;
    size_t rounds; /* of the weights for mixing the streams; 0: they are not mixed */
    float eps, magnitude;
    const model_tensor *fn, *base, *scale; /* behind the last layer */
} hyper_numbers;

typedef struct hyper_scratch {
    float *writes; /* [streams][stride]: the weights of what the sublayer that is run gives */
    float *mix;    /* [from][to][stride]: those of the streams themselves; NULL: they are not mixed */
    float *values; /* of the last base and scale */
    void *raw;     /* the last fn, or one of the others, as stored */
} hyper_scratch;

/* Rows of the matrix that makes a sublayer's weights. */
static size_t hyper_weights(const hyper_numbers *n) { return n->streams * (n->rounds ? 2 + n->streams : 2); }

/* The tensors of a sublayer. */
typedef struct hyper_slots {
    weight_slot fn, base, scale;
} hyper_slots;
static const hyper_slots hyper_mixer = {WEIGHT_HC_ATTN_FN, WEIGHT_HC_ATTN_BASE, WEIGHT_HC_ATTN_SCALE};
static const hyper_slots hyper_ffn = {WEIGHT_HC_FFN_FN, WEIGHT_HC_FFN_BASE, WEIGHT_HC_FFN_SCALE};

enum { MOST_STREAMS = 64, MOST_ROUNDS = 1000 };

static void hyper_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    hyper_numbers *n = p->numbers;
    n->streams = key_number_needed(r, "hyper_connection.count", 1, MOST_STREAMS);
    n->eps = (float)key_float_needed(r, "hyper_connection.epsilon", 0, 1);
    if (m->arch->graph.mixes_streams) {
        n->rounds = key_number_needed(r, "hyper_connection.sinkhorn_iterations", 1, MOST_ROUNDS);
        n->magnitude = 2;
    } else {
        n->magnitude = (float)key_float_needed(r, "hyper_connection.magnitude", -1e6, 1e6);
    }
}

static void hyper_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    hyper_numbers *n = p->numbers;
    uint64_t all = n->streams * f->m->sizes.width;
    if (f->m->arch->graph.ends_mean) return;
    n->fn = tensors_take(f, "output_hc_fn.weight", REQUIRED, SHAPE(all, n->streams));
    n->base = tensors_take(f, "output_hc_base.weight", REQUIRED, SHAPE(n->streams));
    n->scale = tensors_take(f, "output_hc_scale.weight", REQUIRED, SHAPE(1));
}

static void hyper_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const hyper_numbers *n = p->sublayer->numbers;
    const hyper_slots *sublayers[] = {&hyper_mixer, &hyper_ffn};
    for (size_t i = 0; i < 2; i++) {
        uint64_t rows = hyper_weights(n);
        tensors_take_weight(f, sublayers[i]->fn, REQUIRED, SHAPE(n->streams * f->m->sizes.width, rows));
        tensors_take_weight(f, sublayers[i]->base, REQUIRED, SHAPE(rows));
        tensors_take_weight(f, sublayers[i]->scale, REQUIRED, SHAPE(n->rounds ? 3 : 2));
    }
}

static uint64_t hyper_carried_rows(const forward_model *m, const model_sublayer *p, size_t) {
    const hyper_numbers *n = p->numbers;
    return (uint64_t)n->streams * m->sizes.width;
}

/* The norm of all streams, and the weights for reading and writing. */
static uint64_t hyper_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *p) {
    const hyper_numbers *n = p->sublayer->numbers;
    return (uint64_t)n->streams * m->sizes.width + hyper_weights(n);
}

static void hyper_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const hyper_numbers *n = p->numbers;
    hyper_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    own->writes = scratch_take(s, n->streams, b->stride, sizeof(float));
    if (n->rounds) own->mix = scratch_take(s, n->streams * n->streams, b->stride, sizeof(float));
    own->values = scratch_take(s, n->streams + 1, 1, sizeof(float));
    if (n->fn) own->raw = scratch_take(s, n->fn->size + n->base->size + n->scale->size, 1, 1);
}

static bool hyper_embed(forward_batch *b, const model_sublayer *p, const uint32_t *, const float *x,
                        float *carried, size_t stride) {
    const hyper_numbers *n = p->numbers;
    size_t d = b->model->sizes.width;
    for (size_t i = 0; i < n->streams; i++) batch_copy(b, carried + i * d * stride, stride, x, stride, d);
    return true;
}

typedef struct hyper_rows {
    const forward_batch *b;
    float *x, *streams; /* one row, and the rows of all streams */
    const float *weights, *mix;
    size_t n, x_stride, stride;
} hyper_rows;

/* x = the streams' sum by weights */
static void hyper_sum_row(void *data, size_t r, int) {
    const hyper_rows *h = data;
    size_t d = h->b->model->sizes.width;
    float *x = h->x + r * h->x_stride;
    for (size_t t = 0; t < h->b->tokens; t++) {
        float sum = 0;
        for (size_t i = 0; i < h->n; i++)
            sum += h->streams[(i * d + r) * h->stride + t] * h->weights[i * h->b->stride + t];
        x[t] = sum;
    }
}

/* each stream = the sum of all streams by the weights of the mix, and x by its weight */
static void hyper_mix_row(void *data, size_t r, int) {
    const hyper_rows *h = data;
    size_t d = h->b->model->sizes.width, s = h->b->stride;
    const float *x = h->x + r * h->x_stride;
    for (size_t t = 0; t < h->b->tokens; t++) {
        float was[MOST_STREAMS];
        for (size_t i = 0; i < h->n; i++) was[i] = h->streams[(i * d + r) * h->stride + t];
        for (size_t to = 0; to < h->n; to++) {
            float sum = x[t] * h->weights[to * s + t];
            for (size_t i = 0; i < h->n; i++) sum += was[i] * h->mix[(i * h->n + to) * s + t];
            h->streams[(to * d + r) * h->stride + t] = sum;
        }
    }
}

/* each stream += x by its weight */
static void hyper_spread_row(void *data, size_t r, int) {
    const hyper_rows *h = data;
    size_t d = h->b->model->sizes.width;
    const float *x = h->x + r * h->x_stride;
    for (size_t i = 0; i < h->n; i++)
        for (size_t t = 0; t < h->b->tokens; t++)
            h->streams[(i * d + r) * h->stride + t] += x[t] * h->weights[i * h->b->stride + t];
}

/* The norm of all streams together, into b->work. */
static void hyper_norm(forward_batch *b, const hyper_numbers *n, const float *streams, size_t stride) {
    size_t all = n->streams * b->model->sizes.width;
    batch_norm(b, &(norm_groups){.x = streams, .y = b->work, .x_stride = stride, .features = all});
}

/* weights = magnitude sigmoid(scale weights + base) + eps */
static void hyper_finish_weights(forward_batch *b, const hyper_numbers *n, float *weights, float scale,
                                 const float *base, float magnitude, float eps) {
    const element_kernels *k = b->model->elements;
    for (size_t i = 0; i < n->streams; i++) {
        float *row = weights + i * b->stride;
        k->scale(row, scale, b->tokens);
        k->add(row, base[i], b->tokens);
        k->sigmoid(row, b->tokens);
        if (magnitude != 1) k->scale(row, magnitude, b->tokens);
        k->add(row, eps, b->tokens);
    }
}

/* x = x / (the sum + eps), of n values that are `step` floats apart. */
static void hyper_divide(float *x, size_t n, size_t step, float eps) {
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i * step];
    for (size_t i = 0; i < n; i++) x[i * step] /= sum + eps;
}

typedef struct hyper_columns {
    const forward_batch *b;
    const hyper_numbers *n;
    float *mix;
} hyper_columns;

/* Makes weights for mixing of a span of tokens' values, whose softmax stands there already. */
static void hyper_finish_mix_span(void *data, size_t span, int) {
    const hyper_columns *c = data;
    size_t n = c->n->streams, s = c->b->stride, first = span * ELEMENT_SPAN;
    size_t end = min(first + ELEMENT_SPAN, c->b->tokens);
    for (size_t from = 0; from < n; from++)
        c->b->model->elements->softmax(&(softmax_task){
            .s = c->mix + from * n * s + first, .stride = s, .rows = n, .n = end - first, .scale = 1});
    for (size_t t = first; t < end; t++) {
        float *mix = c->mix + t;
        for (size_t i = 0; i < n * n; i++) mix[i * s] += c->n->eps;
        for (size_t round = 0; round < c->n->rounds; round++) {
            for (size_t from = 0; round && from < n; from++)
                hyper_divide(mix + from * n * s, n, s, c->n->eps);
            for (size_t to = 0; to < n; to++) hyper_divide(mix + to * s, n, n * s, c->n->eps);
        }
    }
}

static void hyper_finish_mix(forward_batch *b, const hyper_numbers *n, float *mix, float scale,
                             const float *base) {
    const element_kernels *k = b->model->elements;
    for (size_t i = 0; i < n->streams * n->streams; i++) {
        k->scale(mix + i * b->stride, scale, b->tokens);
        k->add(mix + i * b->stride, base[i], b->tokens);
    }
    threads_for(b->pool, ceil_div(b->tokens, ELEMENT_SPAN), 1, hyper_finish_mix_span,
                &(hyper_columns){b, n, mix});
}

/* Makes what a sublayer reads, in x, and the weights of what it will give. */
static bool hyper_read(forward_batch *b, const sublayer_spec *p, const hyper_slots *w, float *x,
                       size_t stride) {
    const hyper_numbers *n = p->sublayer->numbers;
    const hyper_scratch *own = batch_own(b, p->sublayer);
    size_t s = b->stride, d = b->model->sizes.width;
    float *streams = batch_carried(b, p->sublayer), *reads = b->work + n->streams * d * s;
    const float *scale = b->layer->values[w->scale], *base = b->layer->values[w->base];
    hyper_norm(b, n, streams, b->residual_stride);
    if (!batch_apply(b, w->fn, 0, b->work, s, reads, s)) return false;
    memcpy(own->writes, reads + n->streams * s, n->streams * s * sizeof *reads);
    hyper_finish_weights(b, n, reads, scale[0], base, 1, n->eps);
    hyper_finish_weights(b, n, own->writes, scale[1], base + n->streams, n->magnitude,
                         n->rounds ? 0 : n->eps);
    if (n->rounds) {
        size_t at = 2 * n->streams;
        memcpy(own->mix, reads + at * s, n->streams * n->streams * s * sizeof *reads);
        hyper_finish_mix(b, n, own->mix, scale[2], base + at);
    }
    threads_for(b->pool, d, THREADS_EVEN, hyper_sum_row,
                &(hyper_rows){b, x, streams, reads, NULL, n->streams, stride, b->residual_stride});
    return true;
}

/* Adds what a sublayer has given, b->output, to the streams. */
static void hyper_write(forward_batch *b, const sublayer_spec *p) {
    const hyper_numbers *n = p->sublayer->numbers;
    const hyper_scratch *own = batch_own(b, p->sublayer);
    threads_for(b->pool, b->model->sizes.width, THREADS_EVEN, n->rounds ? hyper_mix_row : hyper_spread_row,
                &(hyper_rows){b, b->output, batch_carried(b, p->sublayer), own->writes, own->mix, n->streams,
                              b->stride, b->residual_stride});
}

static bool hyper_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    return hyper_read(b, p, &hyper_mixer, x, stride);
}

static bool hyper_between(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    hyper_write(b, p);
    return hyper_read(b, p, &hyper_ffn, x, stride);
}

static bool hyper_run(forward_batch *b, const sublayer_spec *p, const float *, size_t) {
    hyper_write(b, p);
    return true;
}

static bool hyper_finish(forward_batch *b, const model_sublayer *p, const float *x, size_t stride, float *y,
                         size_t y_stride) {
    const hyper_numbers *n = p->numbers;
    const hyper_scratch *own = batch_own(b, p);
    const forward_model *m = b->model;
    size_t s = b->stride, d = m->sizes.width, all = n->streams * d;
    const float *streams = x + p->carried * stride;
    float *reads = b->work + all * s, *scale = own->values + n->streams;
    if (!n->fn) {
        batch_copy(b, y, y_stride, streams, stride, d);
        for (size_t i = 1; i < n->streams; i++)
            batch_add(b, y, y_stride, streams + i * d * stride, stride, d, 1);
        batch_scale(b, y, y_stride, d, 1 / (float)n->streams);
        return true;
    }
    matmul_weights w = {own->raw, n->fn->type->id, n->streams, all};
    if (!model_read_values(m, n->base, own->raw, own->values, b->e) ||
        !model_read_values(m, n->scale, own->raw, scale, b->e) ||
        !model_read(m->file, n->fn, 0, n->streams * (uint64_t)all, own->raw, b->e))
        return false;
    hyper_norm(b, n, streams, stride);
    /* After an MTP layer the model's own matrix is used again. */
    if (!m->mtp_of && !batch_inputs(b, &(forward_inputs){.weights = {n->fn},
                                                         .n_weights = 1,
                                                         .matrices = 1,
                                                         .x = b->work,
                                                         .features = all,
                                                         .tokens = b->tokens,
                                                         .stride = s}))
        return false;
    matmul_run(b->products, &w, b->work, s, reads, s, b->tokens);
    hyper_finish_weights(b, n, reads, *scale, own->values, 1, n->eps);
    threads_for(b->pool, d, THREADS_EVEN, hyper_sum_row,
                &(hyper_rows){b, y, (float *)streams, reads, NULL, n->streams, y_stride, stride});
    return true;
}

const sublayer_kind tail_hyper = {
    .model_bytes = sizeof(hyper_numbers),
    .read_keys = hyper_read_keys,
    .find_model_tensors = hyper_find_model_tensors,
    .find_tensors = hyper_find_tensors,
    .carried_rows = hyper_carried_rows,
    .embed = hyper_embed,
    .scratch_rows = hyper_count_rows,
    .lay_out = hyper_lay_out,
    .begin = hyper_begin,
    .between = hyper_between,
    .run = hyper_run,
    .finish = hyper_finish,
};
