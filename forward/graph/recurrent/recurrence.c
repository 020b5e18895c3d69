/* Steps of mixers that go along the tokens. A batch holds whole texts, so a row of a text, or a head in a
 * text with a few of its state's columns, is a task of one thread, and begins and ends within a call. */
#include "forward/graph/recurrent/recurrent.h"

typedef struct convolution_loop {
    const forward_batch *b;
    float *x;
    const float *kernel, *bias; /* bias NULL: 0 */
    size_t taps;
    convolution kind;
} convolution_loop;

/* A window's row of n tokens; what lies beyond its ends counts as 0. `kept` are the tokens that were
 * overwritten. */
static void convolve_centered(float *x, const float *kernel, size_t taps, size_t n) {
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

static void convolve_row(void *data, size_t r, int) {
    const convolution_loop *l = data;
    const forward_batch *b = l->b;
    const float *kernel = l->kernel + r * l->taps;
    for (size_t i = 0; i < b->n_spans; i++) {
        float *x = l->x + r * b->stride + b->spans[i].first;
        size_t n = b->spans[i].tokens;
        if (l->kind == CONVOLUTION_CENTERED)
            convolve_centered(x, kernel, l->taps, n);
        else
            b->model->kernels->recurrence->convolve(x, kernel, l->taps, l->bias ? l->bias[r] : 0.0f, n);
    }
    if (l->kind == CONVOLUTION_SILU)
        b->model->elements->activate(&(activation_rule){.act = ACT_SILU}, l->x + r * b->stride, b->tokens);
}

void batch_convolve(forward_batch *b, weight_slot kernel, float *x, size_t rows, size_t taps,
                    convolution kind) {
    threads_for(
        b->pool, rows, THREADS_EVEN, convolve_row,
        &(convolution_loop){b, x, b->layer->values[kernel], b->layer->bias_values[kernel], taps, kind});
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

void recurrence_take_scratch(forward_batch *b, const model_sublayer *p, scratch *s, size_t each) {
    recurrence_scratch *r = batch_own(b, p);
    _Static_assert(sizeof *r <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    r->each = forward_stride(each);
    r->floats = scratch_take(s, r->each, s->threads, sizeof(float));
}

/* A loop over all heads in all texts; a task has a share of a head's columns. */
typedef struct recurrence_loop {
    const forward_batch *b;
    const recurrence_scratch *r;
    const recurrent_heads *recurs;
    const forgetting_heads *forgets; /* one of both */
    size_t heads, shares;
} recurrence_loop;

static void run_shares(recurrence_loop l, size_t columns, threads_body *body) {
    l.shares = ceil_div(columns, STATE_COLUMNS);
    threads_for(l.b->pool, l.b->n_spans * l.heads * l.shares, 1, body, &l);
}

static void recur_share(void *data, size_t i, int thread) {
    const recurrence_loop *l = data;
    const recurrent_heads *h = l->recurs;
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
    run_shares((recurrence_loop){.b = b, .r = r, .recurs = h, .heads = h->heads}, h->columns, recur_share);
}

static void forget_share(void *data, size_t i, int thread) {
    const recurrence_loop *l = data;
    const forgetting_heads *h = l->forgets;
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
    run_shares((recurrence_loop){.b = b, .r = r, .forgets = h, .heads = h->heads}, h->head, forget_share);
}
