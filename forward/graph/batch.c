/* Steps that all sublayers of a layer share: products with a weight of the layer, norms, adding to the residual
 * stream, and reporting the inputs of weights. Activations are feature-major, so a step is a loop of the pool
 * over rows, or over spans of tokens for norms; no sum runs across threads. Before inputs are reported they
 * are checked: a value that is not finite ends the call with an error naming the weight, the feature and the
 * token, because everything computed from it would mean nothing. It is always the lowest such feature,
 * whatever the number of threads. The kernels are in simd/elements.c and matmul.c. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/batch.h"
#include "forward/graph/sublayer.h"

static bool recall(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v) {
    return b->results && b->results->recall(b, s, matrix, what, v);
}

static void store(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v) {
    if (b->results) b->results->store(b, s, matrix, what, v);
}

/* Products of a matrix whose first row is this one of the weight's. Of rows that cannot be read they are 0. */
static void multiply_rows(forward_batch *b, weight_slot s, uint64_t first, const float *x, size_t x_stride,
                          const batch_values *y) {
    const forward_layer *l = b->layer;
    const model_tensor *t = l->plan->weight[s];
    matmul_weights w = {.type = layer_matrix_used(l, s)->type, .columns = t->ne[0]};
    for (uint64_t row = 0, n; row < y->rows; row += n) {
        float *to = y->x + row * y->stride;
        n = y->rows - row;
        w.data = layer_rows(l, s, first + row, &n, b->pool, b->e);
        w.rows = n;
        if (w.data) {
            matmul_run(b->products, &w, x, x_stride, to, y->stride, y->tokens);
        } else {
            b->unread = true;
            for (uint64_t r = 0; r < n; r++) memset(to + r * y->stride, 0, y->tokens * sizeof *to);
        }
    }
}

void batch_multiply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens) {
    const forward_layer *l = b->layer;
    size_t rows = l->plan->weight[s]->ne[1];
    batch_values values = {y, rows, y_stride, tokens};
    if (recall(b, s, matrix, RESULT_OUTPUT, &values)) return;
    multiply_rows(b, s, matrix * rows, x, x_stride, &values);
    if (l->factor_values[s])
        batch_change_rows(b, b->model->elements->scale, values, l->factor_values[s][matrix]);
    if (l->bias_values[s]) batch_affine_rows(b, values, NULL, l->bias_values[s] + matrix * rows);
    const sublayer_spec *added = &l->plan->switched;
    if (added->sublayer) added->sublayer->kind->add(b, added, s, x, x_stride, y, y_stride);
    if (b->results) b->results->awaits |= (l->replaced && l->awaits[s]) || b->unread;
    store(b, s, matrix, RESULT_OUTPUT, &values);
}

void batch_multiply_some(forward_batch *b, weight_slot s, uint64_t first, const float *x, size_t x_stride,
                         const batch_values *y) {
    multiply_rows(b, s, first, x, x_stride, y);
    if (b->results) b->results->awaits |= (b->layer->replaced && b->layer->awaits[s]) || b->unread;
}

bool batch_apply(forward_batch *b, weight_slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                 size_t y_stride) {
    const batch_tokens all = {.n = b->tokens};
    if (!batch_report_some(b, x, x_stride, &all, matrix, (weight_slot[]){s, WEIGHT_SLOTS})) return false;
    batch_multiply(b, s, matrix, x, x_stride, y, y_stride, b->tokens);
    return true;
}

bool batch_make(forward_batch *b, weight_slot s, size_t matrix, result_kind what, const batch_values *v,
                batch_maker *make, void *data) {
    if (recall(b, s, matrix, what, v)) return true;
    if (!make(b, data)) return false;
    store(b, s, matrix, what, v);
    return true;
}

typedef struct checked_rows {
    const kernels *kernels;
    const float *x;
    size_t stride, tokens;
    _Atomic size_t bad; /* the first row that is not finite */
} checked_rows;

static void check_row(void *data, size_t r, int) {
    checked_rows *c = data;
    size_t bad = c->bad;
    if (r >= bad || c->kernels->first_not_finite(c->x + r * c->stride, c->tokens) == c->tokens) return;
    while (r < bad && !atomic_compare_exchange_weak(&c->bad, &bad, r)) {
    }
}

bool batch_blame_weights(gq_error *e) {
    if (e) e->status = GQ_BAD_WEIGHTS;
    return false;
}

bool batch_finite(forward_batch *b, const char *what, const model_tensor *t, const float *x, size_t stride,
                  size_t features, size_t tokens) {
    const kernels *k = b->model->codecs;
    checked_rows c = {.kernels = k, .x = x, .stride = stride, .tokens = tokens, .bad = SIZE_MAX};
    threads_for(b->pool, features, THREADS_EVEN, check_row, &c);
    size_t bad = c.bad;
    if (bad == SIZE_MAX) return true;
    size_t token = k->first_not_finite(x + bad * stride, tokens);
    float value = x[bad * stride + token];
    if (isnan(value)) value = NAN; /* the sign of a NaN depends on the processor */
    gq_fail(b->e, "%s: %s %s is not finite: feature %zu of token %zu of the batch is %g", b->model->path,
            what, t ? t->name : "", bad, token, (double)value);
    return batch_blame_weights(b->e);
}

bool batch_inputs(forward_batch *b, const forward_inputs *in) {
    forward_inputs placed = *in;
    if (b->token) placed.token = b->token;
    b->answer = FORWARD_FAILED;
    if (b->unread) return false;
    if (batch_finite(b, "the input of", in->weights[0], in->x, in->stride, in->features, in->tokens))
        b->answer = b->observer ? b->observer->on_inputs(b->observer->data, &placed, b->e) : FORWARD_ON;
    if (b->results) b->results->lacks |= in->routed && b->answer == FORWARD_SKIP;
    return b->answer == FORWARD_ON || b->answer == FORWARD_SKIP;
}

bool batch_report_some(forward_batch *b, const float *x, size_t stride, const batch_tokens *tokens,
                       size_t matrix, const weight_slot *slots) {
    forward_inputs in = {.matrix = matrix,
                         .x = x,
                         .tokens = tokens->n,
                         .stride = stride,
                         .token = tokens->token,
                         .gate = tokens->gate,
                         .matrices = 1};
    in.late = weight_facts_of[*slots].is_late;
    in.routed = weight_facts_of[*slots].is_routed; /* the weights of a list are all routed or none is */
    for (; *slots != WEIGHT_SLOTS; slots++) {
        const model_tensor *t = b->layer->plan->weight[*slots];
        if (!t) continue;
        in.weights[in.n_weights++] = t;
        in.matrices = t->ne[2], in.features = t->ne[0];
    }
    return batch_inputs(b, &in);
}

bool batch_report_inputs(forward_batch *b, const float *x, size_t stride, const weight_slot *slots) {
    return batch_report_some(b, x, stride, &(batch_tokens){.n = b->tokens}, 0, slots);
}

typedef struct normed_groups {
    const forward_batch *b;
    const norm_groups *g;
    size_t spans; /* of tokens */
} normed_groups;

static void norm_span(void *data, size_t i, int) {
    const normed_groups *of = data;
    const norm_groups *g = of->g;
    const forward_model *m = of->b->model;
    size_t tokens = of->b->tokens, group = i / of->spans;
    size_t rows = group * (g->group_stride ? g->group_stride : g->features);
    size_t first = i % of->spans * ELEMENT_SPAN;
    m->elements->norm(&(norm_task){
        .x = g->x + rows * g->x_stride + first,
        .y = g->y + rows * g->y_stride + first,
        .x_stride = g->x_stride,
        .y_stride = g->y_stride,
        .features = g->features,
        .n = tokens - first < ELEMENT_SPAN ? tokens - first : ELEMENT_SPAN,
        .weight = g->weight ? g->weight + group * g->weight_stride : NULL,
        .bias = g->bias ? g->bias + group * g->weight_stride : NULL,
        .one_weight = g->one_weight,
        .eps = g->eps != 0 ? g->eps : m->eps,
        .center = !g->to_unit && (m->centers || g->centers),
        .to_unit = g->to_unit,
    });
}

void batch_norm(forward_batch *b, const norm_groups *given) {
    norm_groups g = *given;
    if (!g.y_stride) g.y_stride = b->stride;
    if (!g.x) g.x = g.y, g.x_stride = g.y_stride;
    if (!g.x_stride) g.x_stride = b->stride;
    if (!g.groups) g.groups = 1;
    normed_groups of = {b, &g, ceil_div(b->tokens, ELEMENT_SPAN)};
    threads_for(b->pool, g.groups * of.spans, THREADS_EVEN, norm_span, &of);
}

void batch_norm_groups(forward_batch *b, const float *weight, float *x, size_t features, size_t groups) {
    batch_norm(b, &(norm_groups){.y = x, .weight = weight, .features = features, .groups = groups});
}

void batch_unit_groups(forward_batch *b, float *x, size_t features, size_t groups, float eps) {
    batch_norm(b,
               &(norm_groups){.y = x, .features = features, .groups = groups, .to_unit = true, .eps = eps});
}

void batch_norm_streams(forward_batch *b, const float *x, size_t x_stride, const float *weight, float *y,
                        size_t streams) {
    size_t width = b->model->sizes.width;
    batch_norm(b, &(norm_groups){x, weight, NULL, y, x_stride, .features = width, .groups = streams,
                                 .weight_stride = width});
}

void batch_norm_slot(forward_batch *b, weight_slot s, const float *x, size_t x_stride, size_t features,
                     float *y, size_t y_stride) {
    const forward_layer *l = b->layer;
    batch_norm(
        b, &(norm_groups){x, l->values[s], l->bias_values[s], y, x_stride, y_stride, features, .groups = 1});
}

void batch_norm_output(forward_batch *b, weight_slot s) {
    const forward_layer *l = b->layer;
    batch_norm(b, &(norm_groups){.y = b->output,
                                 .weight = l->values[s],
                                 .bias = l->bias_values[s],
                                 .features = b->model->sizes.width,
                                 .eps = b->model->eps_after});
}

/* ---- a batch and its memory ---- */

void *scratch_take(scratch *s, uint64_t n, uint64_t of, uint64_t size) {
    uint64_t bytes, at = s->at;
    if (__builtin_mul_overflow(n, of, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > UINT64_MAX / 4 || __builtin_add_overflow(at, round_up(bytes, LAYER_ALIGNMENT), &s->at)) {
        s->at = UINT64_MAX;
        return NULL;
    }
    return s->bytes ? s->bytes + at : NULL;
}

enum { MOST_CONTEXT = 1 << 24, MOST_TOKENS = 1 << 30 };

static uint64_t work_rows(const forward_model *m) {
    uint64_t most = 0;
    for (size_t i = m->first; i < m->sizes.layers; i++)
        for (const sublayer_spec *p = m->layers[i].sublayers; p < m->layers[i].sublayers + LAYER_SUBLAYERS;
             p++)
            if (p->sublayer && p->sublayer->kind->scratch_rows)
                most = max(most, p->sublayer->kind->scratch_rows(m, &m->layers[i], p));
    return most;
}

static bool uses_start(const forward_model *m) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (m->layers[i].ffn_needs_start || m->layers[i].adds_start) return true;
    return false;
}

/* All of a batch's pointers, or their sizes alone. */
static void lay_out_batch(forward_batch *b, scratch *s) {
    const forward_model *m = b->model;
    uint64_t stride = forward_stride(b->context * b->most_windows);
    b->stride = stride;
    uint64_t steps = ceil_div(b->context, FORWARD_TEXT_ALIGNMENT);
    b->spans = scratch_take(s, b->most_windows, steps, sizeof *b->spans);
    b->span_of = scratch_take(s, b->most_windows, steps, sizeof *b->span_of);
    b->normed = scratch_take(s, m->sizes.width, stride, sizeof(float));
    b->output = scratch_take(s, m->sizes.width, stride, sizeof(float));
    b->work = scratch_take(s, work_rows(m), stride, sizeof(float));
    if (m->arch->graph.beside) b->first_mixed = scratch_take(s, m->sizes.width, stride, sizeof(float));
    if (uses_start(m)) b->start = scratch_take(s, m->sizes.width, stride, sizeof(float));
    if (m->sizes.halves) {
        b->half = scratch_take(s, m->sizes.width, stride, sizeof(float));
        for (int i = 0; i < 2; i++) b->half_tokens[i] = scratch_take(s, 1, stride, sizeof(uint32_t));
    }
    for (size_t i = 0; i < m->n_sublayers; i++)
        if (m->sublayers[i].kind->lay_out) m->sublayers[i].kind->lay_out(b, &m->sublayers[i], s);
}

static bool batch_prepare_sublayers(forward_batch *b, gq_error *e) {
    const forward_model *m = b->model;
    for (size_t i = 0; i < m->n_sublayers; i++) {
        const sublayer_kind *kind = m->sublayers[i].kind;
        if (kind->prepare && !kind->prepare(b, &m->sublayers[i], e)) return false;
    }
    return true;
}

static bool batch_is_countable(size_t context, size_t windows, int threads) {
    return context >= 1 && context <= MOST_CONTEXT && windows >= 1 && windows <= MOST_TOKENS / context &&
           threads >= 1 && threads <= 1 << 16;
}

uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads) {
    forward_batch b = {.model = m, .context = context, .most_windows = windows};
    scratch r = {.threads = (uint64_t)threads};
    if (!batch_is_countable(context, windows, threads)) return UINT64_MAX;
    lay_out_batch(&b, &r);
    return add_sat(r.at, matmul_bytes(threads));
}

forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, threads_pool *pool,
                                 gq_error *e) {
    int threads = threads_pool_most(pool);
    if (!batch_is_countable(context, windows, threads)) {
        gq_fail_usage(
            e,
            "%zu windows of %zu tokens on %d threads, expected at least one of each, and at most %d "
            "tokens in a window",
            windows, context, threads, MOST_CONTEXT);
        return NULL;
    }
    forward_batch *b = calloc(1, sizeof *b);
    if (!b) return gq_fail_memory(e, sizeof *b), NULL;
    *b = (forward_batch){.model = m, .context = context, .most_windows = windows, .pool = pool};
    scratch r = {.threads = (uint64_t)threads};
    lay_out_batch(b, &r);
    b->memory = memory_lines(1, r.at, e), b->bytes = forward_batch_bytes(m, context, windows, threads);
    if (b->memory) memset(b->memory, 0, r.at);
    if (b->memory && (b->products = matmul_new(m->codecs, pool, e)) && forward_batch_set_model(b, m, e))
        return b;
    forward_batch_free(b);
    return NULL;
}

bool forward_batch_set_model(forward_batch *b, const forward_model *m, gq_error *e) {
    scratch r = {.bytes = b->memory, .threads = (uint64_t)threads_pool_most(b->pool)};
    *b = (forward_batch){.model = m,
                         .context = b->context,
                         .most_windows = b->most_windows,
                         .pool = b->pool,
                         .products = b->products,
                         .memory = b->memory,
                         .bytes = b->bytes};
    lay_out_batch(b, &r);
    forward_batch_windows(b, b->most_windows);
    matmul_set_arithmetic(b->products, m->arithmetic);
    return batch_prepare_sublayers(b, e);
}

void forward_batch_windows(forward_batch *b, size_t windows) {
    b->windows = windows < b->most_windows ? windows : b->most_windows;
    b->tokens = b->windows * b->context;
    forward_batch_cut(b, NULL);
}

void forward_batch_cut(forward_batch *b, const forward_mark *marks) {
    size_t step = 0; /* of all windows, FORWARD_TEXT_ALIGNMENT tokens each but the last of a window */
    b->n_spans = 0;
    for (size_t begin = 0; begin < b->tokens; begin += b->context)
        for (size_t token = 0; token < b->context; token += FORWARD_TEXT_ALIGNMENT, step++) {
            size_t at = begin + token, end = begin + min(token + FORWARD_TEXT_ALIGNMENT, b->context);
            if (token == 0 || (marks && marks[at].position == 0))
                b->spans[b->n_spans++] = (batch_span){.first = at};
            batch_span *text = &b->spans[b->n_spans - 1];
            text->tokens = end - text->first;
            while (at < end && (!marks || marks[at].position != FORWARD_BEHIND_TEXT)) at++;
            if (at > begin + token) text->length = at - text->first;
            b->span_of[step] = (uint32_t)(b->n_spans - 1);
        }
}

void forward_batch_free(forward_batch *b) {
    if (!b) return;
    matmul_free(b->products);
    free(b->memory);
    free(b);
}

float *forward_activations_take(memory_ledger *l, size_t features, size_t stride) {
    return memory_take_zeros(l, mul_sat(features, stride), sizeof(float));
}

float *forward_activations(size_t features, size_t stride, gq_error *e) {
    memory_ledger l = {.failed = false};
    float *x = forward_activations_take(&l, features, stride);
    return memory_had(&l, e) ? x : NULL;
}
