/* Steps of mixers that go along the tokens. A batch holds whole texts, so a row of a text, or a head in a
 * text with a few of its state's columns, is a task of one thread, and begins and ends within a call.
 */
#include "graph/recurrent/recurrence.h"

#include <string.h>

#include "base/checked.h"

typedef struct convolution_loop {
    const forward_batch *b;
    const convolved_rows *c;
} convolution_loop;

/* A window's row of n tokens; what lies beyond its ends counts as 0. `kept` are the tokens that were overwritten. */
static void convolve_centred(float *x, const float *kernel, size_t taps, size_t n) {
    float kept[CONVOLUTION_TAPS];
    size_t side = taps / 2;
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        kept[i % taps] = x[i];
        for (size_t k = 0; k < taps; k++) {
            if (i + k < side || i + k - side >= n) continue;
            size_t at = i + k - side;
            sum += kernel[k] * (at <= i ? kept[at % taps] : x[at]);
        }
        x[i] = sum;
    }
}

static void convolve_row(void *data, size_t r, int thread) {
    const convolution_loop *l = data;
    const forward_batch *b = l->b;
    const convolved_rows *c = l->c;
    float *x = c->x + r * b->stride;
    (void)thread;
    for (size_t i = 0; c->is_centred && i < b->n_spans; i++)
        convolve_centred(x + b->spans[i].first, c->kernel + r * c->taps, c->taps, b->spans[i].tokens);
    for (size_t i = 0; !c->is_centred && i < b->n_spans; i++)
        b->model->kernels->recurrence->convolve(x + b->spans[i].first, c->kernel + r * c->taps, c->taps,
                                                c->bias ? c->bias[r] : 0.0f, b->spans[i].tokens);
    if (c->has_silu) b->model->elements->activate(&(activation_rule){.act = ACT_SILU}, x, b->tokens);
}

void batch_convolve(forward_batch *b, const convolved_rows *c) {
    threads_for(b->pool, c->rows, THREADS_EVEN, convolve_row, &(convolution_loop){b, c});
}

/* ---- row by row ---- */

typedef struct sorted_rows {
    const forward_batch *b;
    const float *from;
    float *to;
    const row_groups *g;
} sorted_rows;

static void sort_row(void *data, size_t r, int thread) {
    const sorted_rows *o = data;
    const row_groups *g = o->g;
    size_t s = o->b->stride, from = r / g->each * g->group + g->first + r % g->each;
    (void)thread;
    memcpy(o->to + r * s, o->from + from * s, o->b->tokens * sizeof *o->to);
}

void batch_sort_rows(forward_batch *b, const float *from, float *to, const row_groups *g) {
    threads_for(b->pool, g->groups * g->each, THREADS_EVEN, sort_row, &(sorted_rows){b, from, to, g});
}

typedef struct paired_rows {
    const forward_batch *b;
    float *x;
    const float *y;
    bool is_sigmoid;
} paired_rows;

static void multiply_row(void *data, size_t r, int thread) {
    const paired_rows *p = data;
    size_t s = p->b->stride;
    (void)thread;
    p->b->model->elements->multiply(p->x + r * s, p->y + r * s, p->b->tokens);
}

void batch_multiply_rows(forward_batch *b, float *x, const float *y, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, multiply_row, &(paired_rows){b, x, y, false});
}

static void gate_row_by_row(void *data, size_t r, int thread) {
    const paired_rows *p = data;
    const element_kernels *k = p->b->model->elements;
    float *gate = p->x + r * p->b->stride;
    (void)thread;
    if (p->is_sigmoid)
        k->sigmoid(gate, p->b->tokens);
    else
        k->activate(&(activation_rule){.act = ACT_SILU}, gate, p->b->tokens);
    k->multiply(gate, p->y + r * p->b->stride, p->b->tokens);
}

void batch_gate_rows(forward_batch *b, float *gate, const float *x, size_t rows, bool is_sigmoid) {
    threads_for(b->pool, rows, THREADS_EVEN, gate_row_by_row, &(paired_rows){b, gate, x, is_sigmoid});
}

typedef struct activated_rows {
    const forward_batch *b;
    float *x;
    activation act;
} activated_rows;

static void activate_row(void *data, size_t r, int thread) {
    const activated_rows *a = data;
    (void)thread;
    a->b->model->elements->activate(&(activation_rule){.act = a->act}, a->x + r * a->b->stride, a->b->tokens);
}

void batch_activate_rows(forward_batch *b, activation act, float *x, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, activate_row, &(activated_rows){b, x, act});
}

static void tanh_row(void *data, size_t r, int thread) {
    const paired_rows *p = data;
    (void)thread;
    p->b->model->elements->cap(p->x + r * p->b->stride, 1, p->b->tokens);
}

void batch_tanh_rows(forward_batch *b, float *x, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, tanh_row, &(paired_rows){b, x, NULL, false});
}

typedef struct affine_rows {
    const forward_batch *b;
    float *x;
    const float *factors, *added;
} affine_rows;

static void affine_row(void *data, size_t r, int thread) {
    const affine_rows *a = data;
    float *x = a->x + r * a->b->stride;
    (void)thread;
    if (a->factors) a->b->model->elements->scale(x, a->factors[r], a->b->tokens);
    if (a->added) a->b->model->elements->add(x, a->added[r], a->b->tokens);
}

void batch_affine_rows(forward_batch *b, float *x, const float *factors, const float *added, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, affine_row, &(affine_rows){b, x, factors, added});
}

static void sigmoid_row(void *data, size_t r, int thread) {
    const paired_rows *p = data;
    (void)thread;
    p->b->model->elements->sigmoid(p->x + r * p->b->stride, p->b->tokens);
}

void batch_sigmoid_rows(forward_batch *b, float *x, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, sigmoid_row, &(paired_rows){b, x, NULL, false});
}

static void softplus_row(void *data, size_t r, int thread) {
    const paired_rows *p = data;
    float *x = p->x + r * p->b->stride;
    (void)thread;
    if (p->y) p->b->model->elements->add(x, p->y[r], p->b->tokens);
    p->b->model->elements->softplus(x, p->b->tokens);
}

void batch_softplus_rows(forward_batch *b, float *x, const float *bias, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, softplus_row, &(paired_rows){b, x, bias, false});
}

typedef struct decayed_rows {
    const forward_batch *b;
    float *decay;
    const float *rate, *factor;
} decayed_rows;

static void decay_row(void *data, size_t r, int thread) {
    const decayed_rows *d = data;
    size_t s = d->b->stride;
    (void)thread;
    d->b->model->kernels->recurrence->decay(d->decay + r * s, d->rate + r * s, d->factor[r], d->b->tokens);
}

void batch_decay_rows(forward_batch *b, float *decay, const float *rate, const float *factor, size_t rows) {
    threads_for(b->pool, rows, THREADS_EVEN, decay_row, &(decayed_rows){b, decay, rate, factor});
}

/* ---- layers ---- */

void recurrence_choose_layers(const forward_model *m, key_reader *r, bool *is_own) {
    key_list list = key_list_of(r, "attention.recurrent_layers");
    uint64_t interval =
        key_number(r, "full_attention_interval", m->arch->graph.interval_default, 1, MODEL_MOST);
    for (size_t i = 0; i < m->sizes.layers; i++)
        is_own[i] = key_number_at(r, &list, i, (i + 1) % interval != 0, 0, 1);
}

/* ---- states ---- */

void recurrence_take_scratch(forward_batch *b, const model_part *p, scratch *s, size_t each) {
    recurrence_scratch *r = batch_own(b, p);
    _Static_assert(sizeof *r <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    r->each = forward_stride(each);
    r->floats = scratch_take(s, r->each, s->threads, sizeof(float));
}

typedef struct recurrence_loop {
    const forward_batch *b;
    const recurrence_scratch *r;
    const recurrent_heads *h;
    size_t shares; /* of a head's columns */
} recurrence_loop;

static void recur_share(void *data, size_t i, int thread) {
    const recurrence_loop *l = data;
    const recurrent_heads *h = l->h;
    const batch_span *text = &l->b->spans[i / (h->heads * l->shares)];
    size_t s = l->b->stride, head = i / l->shares % h->heads;
    size_t begin = text->first, first = i % l->shares * STATE_COLUMNS;
    size_t key = (h->is_grouped ? head * h->key_heads / h->heads : head % h->key_heads) * h->rows;
    l->b->model->kernels->recurrence->recur(&(recurrence_task){
        .key = h->key + key * s + begin,
        .query = h->query + key * s + begin,
        .decay = h->decay + head * (h->has_decays ? h->rows : 1) * s + begin,
        .rate = h->rate + head * s + begin,
        .value = h->value + (head * h->columns + first) * s + begin,
        .stride = s,
        .decay_stride = h->has_decays ? s : 0,
        .rows = h->rows,
        .columns = h->columns - first < STATE_COLUMNS ? h->columns - first : STATE_COLUMNS,
        .tokens = text->tokens,
        .scale = h->scale,
        .skip = h->skip ? h->skip[head] : 0,
        .is_delta = h->is_delta,
        .scratch = l->r->floats + (size_t)thread * l->r->each,
    });
}

void batch_recur(forward_batch *b, const recurrence_scratch *r, const recurrent_heads *h) {
    recurrence_loop l = {b, r, h, ceil_div(h->columns, STATE_COLUMNS)};
    threads_for(b->pool, b->n_spans * h->heads * l.shares, 1, recur_share, &l);
}

typedef struct forgetting_loop {
    const forward_batch *b;
    const recurrence_scratch *r;
    const forgetting_heads *h;
    size_t shares; /* of a head's columns */
} forgetting_loop;

static void forget_share(void *data, size_t i, int thread) {
    const forgetting_loop *l = data;
    const forgetting_heads *h = l->h;
    const batch_span *text = &l->b->spans[i / (h->heads * l->shares)];
    size_t s = l->b->stride, head = i / l->shares % h->heads;
    size_t first = i % l->shares * STATE_COLUMNS, at = head * h->head * s + text->first;
    l->b->model->kernels->recurrence->forget(&(forgetting_task){
        .key = h->key + at,
        .query = h->query + at,
        .decay = h->decay + at,
        .remove = h->remove + at,
        .restore = h->restore + at,
        .value = h->value + at + first * s,
        .stride = s,
        .rows = h->head,
        .columns = h->head - first < STATE_COLUMNS ? h->head - first : STATE_COLUMNS,
        .tokens = text->tokens,
        .scratch = l->r->floats + (size_t)thread * l->r->each,
    });
}

void batch_forget(forward_batch *b, const recurrence_scratch *r, const forgetting_heads *h) {
    forgetting_loop l = {b, r, h, ceil_div(h->head, STATE_COLUMNS)};
    threads_for(b->pool, b->n_spans * h->heads * l.shares, 1, forget_share, &l);
}
