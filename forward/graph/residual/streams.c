/* AltUp (Baykal et al., NeurIPS 2023) and LAuReL (arXiv:2411.07501) of gemma3n: four streams per token, of
 * which a layer runs the first and corrects all by the result. Stream 0 is the hidden state; the others are
 * carried behind it, and behind them the inputs that each layer has of its own (residual.h). |v| is the root
 * of the sum of squares over a token's features.
 *
 *     embedding:   X_k = v |X_0| / |v|, v = altup_proj_k X_0                             k = 1, 2, 3
 *     modal(v)     tanh(altup_router (rmsnorm(v, altup_router_norm) / width)), four values
 *     before:      Q_i = X_i + sum over j of c[4 i + j] X_j, c = altup_predict_coef modal(X_0)
 *     between:     y = (x + n + rmsnorm(laurel_r laurel_l n, laurel_post_norm)) / sqrt(2)
 *                  x: Q_0 and what the mixer added to it, n: what the mixer read
 *     behind:      X_i = Q_i + (1 + c_i) (x - Q_0), c = altup_correct_coef modal(x)
 *                  X_k = X_k + what the layer's inputs let through of X_0 * altup_correct_scale
 *     at the end:  (X_0 + sum over k of v_k |X_0| / |v_k|) / 4, v_k = altup_unembd_proj_k X_k
 *
 * llama.cpp quantizes none of the matrices here, so their inputs are not reported. */
#include <math.h>
#include <string.h>

#include "forward/graph/residual/residual.h"

enum { STREAMS = 4, OTHERS = STREAMS - 1, INPUTS = 256 /* of each layer; no key says it */ };

typedef struct streams_numbers {
    layer_inputs inputs;
    const model_tensor *embed, *finish; /* a matrix for each of the other streams */
} streams_numbers;

typedef struct streams_scratch {
    layer_inputs_scratch inputs;
    float *modal, *coefficients; /* [STREAMS], [STREAMS * STREAMS][stride] */
    double *size, *other;        /* [stride]: |X_0| and |v| of each token */
    float *product;              /* [width][stride]: v */
    void *matrix;                /* one matrix of a stream, as stored */
} streams_scratch;

static void streams_read_keys(forward_model *, key_reader *, model_sublayer *p) {
    streams_numbers *n = p->numbers;
    n->inputs.n = INPUTS;
}

static void streams_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    streams_numbers *n = p->numbers;
    uint64_t d = f->m->sizes.width;
    n->embed = tensors_take(f, "altup_proj.weight", REQUIRED, SHAPE(d, d, OTHERS));
    n->finish = tensors_take(f, "altup_unembd_proj.weight", REQUIRED, SHAPE(d, d, OTHERS));
    layer_inputs_find(f, &n->inputs);
}

static void streams_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const streams_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width, rank = tensors_rows(f, WEIGHT_LAUREL_L);
    tensors_take_weight(f, WEIGHT_ALTUP_ROUTER, REQUIRED, SHAPE(d, STREAMS));
    tensors_take_weight(f, WEIGHT_ALTUP_ROUTER_NORM, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_ALTUP_PREDICT, REQUIRED, SHAPE(STREAMS, STREAMS * STREAMS));
    tensors_take_weight(f, WEIGHT_ALTUP_CORRECT, REQUIRED, SHAPE(STREAMS, STREAMS));
    tensors_take_weight(f, WEIGHT_ALTUP_SCALE, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_LAUREL_L, REQUIRED, SHAPE(d, rank));
    tensors_take_weight(f, WEIGHT_LAUREL_R, REQUIRED, SHAPE(rank, d));
    tensors_take_weight(f, WEIGHT_LAUREL_POST_NORM, REQUIRED, SHAPE(d));
    layer_inputs_find_layer(f, &n->inputs);
}

static uint64_t streams_carried_rows(const forward_model *m, const model_sublayer *, size_t) {
    return OTHERS * m->sizes.width + INPUTS * m->sizes.layers;
}

static uint64_t streams_count_rows(const forward_model *, const layer_spec *l, const sublayer_spec *) {
    uint64_t rank = l->weight[WEIGHT_LAUREL_L]->ne[1];
    return rank > INPUTS ? rank : INPUTS;
}

static void streams_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const streams_numbers *n = p->numbers;
    streams_scratch *own = batch_own(b, p);
    uint64_t d = b->model->sizes.width, first = model_row_bytes(n->embed), last = model_row_bytes(n->finish);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    layer_inputs_lay_out(&n->inputs, &own->inputs, s);
    own->modal = scratch_take(s, STREAMS, b->stride, sizeof(float));
    own->coefficients = scratch_take(s, STREAMS * STREAMS, b->stride, sizeof(float));
    own->size = scratch_take(s, 1, b->stride, sizeof(double));
    own->other = scratch_take(s, 1, b->stride, sizeof(double));
    own->product = scratch_take(s, d, b->stride, sizeof(float));
    own->matrix = scratch_take(s, d, first > last ? first : last, 1);
}

/* ---- streams of one size ---- */

/* |x| of each token. */
static void streams_measure(const forward_batch *b, const float *x, size_t stride, double *size) {
    memset(size, 0, b->tokens * sizeof *size);
    for (size_t c = 0; c < b->model->sizes.width; c++)
        for (size_t t = 0; t < b->tokens; t++) {
            double y = (double)x[c * stride + t];
            size[t] += y * y;
        }
    for (size_t t = 0; t < b->tokens; t++) size[t] = sqrt(size[t]);
}

/* own->product = v |X_0| / |v|, v = matrix k of t times x. own->size is |X_0|. */
static bool streams_project(forward_batch *b, const model_sublayer *p, const model_tensor *t, size_t k,
                            const float *x, size_t stride) {
    const forward_model *m = b->model;
    streams_scratch *own = batch_own(b, p);
    uint64_t d = m->sizes.width;
    matmul_weights w = {own->matrix, t->type->id, d, d};
    if (!model_read(m->file, t, k * d * d, d * d, own->matrix, b->e)) return false;
    matmul_run(b->products, &w, x, stride, own->product, b->stride, b->tokens);
    streams_measure(b, own->product, b->stride, own->other);
    for (size_t c = 0; c < d; c++)
        for (size_t i = 0; i < b->tokens; i++)
            own->product[c * b->stride + i] *= (float)(own->size[i] / own->other[i]);
    return true;
}

static bool streams_embed(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *x,
                          float *carried, size_t stride) {
    const streams_numbers *n = p->numbers;
    streams_scratch *own = batch_own(b, p);
    size_t d = b->model->sizes.width;
    streams_measure(b, x, stride, own->size);
    for (size_t k = 0; k < OTHERS; k++) {
        if (!streams_project(b, p, n->embed, k, x, stride)) return false;
        batch_copy(b, carried + k * d * stride, stride, own->product, b->stride, d);
    }
    return layer_inputs_embed(b, &n->inputs, &own->inputs, ids, x, carried + OTHERS * d * stride, stride);
}

static bool streams_finish(forward_batch *b, const model_sublayer *p, const float *x, size_t stride, float *y,
                           size_t y_stride) {
    const streams_numbers *n = p->numbers;
    const streams_scratch *own = batch_own(b, p);
    size_t d = b->model->sizes.width;
    const float *others = x + p->carried * stride;
    batch_copy(b, y, y_stride, x, stride, d);
    streams_measure(b, x, stride, own->size);
    for (size_t k = 0; k < OTHERS; k++) {
        if (!streams_project(b, p, n->finish, k, others + k * d * stride, stride)) return false;
        batch_add(b, y, y_stride, own->product, b->stride, d, 1);
    }
    batch_scale(b, y, y_stride, d, 1.0F / STREAMS);
    return true;
}

/* ---- a layer ---- */

/* own->coefficients = the weight's product with modal(x). */
static void streams_coefficients(forward_batch *b, const sublayer_spec *p, weight_slot s, const float *x,
                                 size_t stride) {
    const forward_model *m = b->model;
    streams_scratch *own = batch_own(b, p->sublayer);
    size_t d = m->sizes.width;
    batch_norm_slot(b, WEIGHT_ALTUP_ROUTER_NORM, x, stride, d, own->product, b->stride);
    batch_scale(b, own->product, b->stride, d, 1 / (float)d);
    batch_multiply(b, WEIGHT_ALTUP_ROUTER, 0, own->product, b->stride, own->modal, b->stride, b->tokens);
    batch_change_rows(b, m->elements->cap, batch_rows(b, own->modal, STREAMS), 1);
    batch_multiply(b, s, 0, own->modal, b->stride, own->coefficients, b->stride, b->tokens);
}

/* One row of features of all streams. */
typedef struct streams_rows {
    const forward_batch *b;
    float *x, *others;
    const float *coefficients, *start;
} streams_rows;

static void streams_predict_row(void *data, size_t r, int) {
    const streams_rows *s = data;
    size_t step = s->b->stride, stride = s->b->residual_stride, d = s->b->model->sizes.width;
    float *x[STREAMS] = {s->x + r * stride};
    for (size_t k = 0; k < OTHERS; k++) x[k + 1] = s->others + (k * d + r) * stride;
    for (size_t t = 0; t < s->b->tokens; t++) {
        float q[STREAMS];
        for (size_t i = 0; i < STREAMS; i++) {
            float sum = 0;
            for (size_t j = 0; j < STREAMS; j++)
                sum += s->coefficients[(STREAMS * i + j) * step + t] * x[j][t];
            q[i] = x[i][t] + sum;
        }
        for (size_t i = 0; i < STREAMS; i++) x[i][t] = q[i];
    }
}

static void streams_correct_row(void *data, size_t r, int) {
    const streams_rows *s = data;
    size_t step = s->b->stride, stride = s->b->residual_stride, d = s->b->model->sizes.width;
    float *x = s->x + r * stride, *others = s->others + r * stride;
    for (size_t t = 0; t < s->b->tokens; t++) {
        float start = s->start[r * step + t], change = x[t] - start;
        x[t] = start + (1 + s->coefficients[t]) * change;
        for (size_t k = 0; k < OTHERS; k++)
            others[k * d * stride + t] += (1 + s->coefficients[(k + 1) * step + t]) * change;
    }
}

static streams_rows streams_rows_of(forward_batch *b, const sublayer_spec *p, float *x) {
    const streams_scratch *own = batch_own(b, p->sublayer);
    return (streams_rows){b, x, batch_carried(b, p->sublayer), own->coefficients, b->start};
}

static bool streams_begin(forward_batch *b, const sublayer_spec *p, float *x, size_t stride) {
    streams_rows rows = streams_rows_of(b, p, x);
    streams_coefficients(b, p, WEIGHT_ALTUP_PREDICT, x, stride);
    threads_for(b->pool, b->model->sizes.width, THREADS_EVEN, streams_predict_row, &rows);
    return true;
}

static bool streams_between(forward_batch *b, const sublayer_spec *, float *x, size_t stride) {
    size_t d = b->model->sizes.width, s = b->stride;
    batch_multiply(b, WEIGHT_LAUREL_L, 0, b->normed, s, b->work, s, b->tokens);
    batch_multiply(b, WEIGHT_LAUREL_R, 0, b->work, s, b->output, s, b->tokens);
    batch_norm_output(b, WEIGHT_LAUREL_POST_NORM);
    batch_add(b, b->output, s, b->normed, s, d, 1);
    batch_add(b, x, stride, b->output, s, d, 1);
    batch_scale(b, x, stride, d, sqrtf(.5F));
    return true;
}

static bool streams_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const streams_numbers *n = p->sublayer->numbers;
    size_t d = m->sizes.width;
    streams_rows rows = streams_rows_of(b, p, b->residual);
    const float *inputs = rows.others + (OTHERS * d + b->layer->index * INPUTS) * stride;
    streams_coefficients(b, p, WEIGHT_ALTUP_CORRECT, x, stride);
    threads_for(b->pool, d, THREADS_EVEN, streams_correct_row, &rows);
    batch_copy(b, b->normed, b->stride, x, stride, d);
    batch_affine_rows(b, batch_rows(b, b->normed, d), b->layer->values[WEIGHT_ALTUP_SCALE], NULL);
    if (!layer_inputs_run(b, &n->inputs, inputs, b->normed, b->stride)) return false;
    for (size_t k = 0; k < OTHERS; k++)
        batch_add(b, rows.others + k * d * stride, stride, b->output, b->stride, d, 1);
    return true;
}

const sublayer_kind tail_streams = {
    .model_bytes = sizeof(streams_numbers),
    .read_keys = streams_read_keys,
    .find_model_tensors = streams_find_model_tensors,
    .find_tensors = streams_find_tensors,
    .carried_rows = streams_carried_rows,
    .embed = streams_embed,
    .scratch_rows = streams_count_rows,
    .lay_out = streams_lay_out,
    .begin = streams_begin,
    .between = streams_between,
    .run = streams_run,
    .finish = streams_finish,
};
