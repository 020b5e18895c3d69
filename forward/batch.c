#include "forward/batch.h"

#include <stdlib.h>
#include <string.h>

#include "forward/threads.h"

enum { ALIGNMENT = 64, MOST_CONTEXT = 1 << 24, MOST_TOKENS = 1 << 30 };

/* ---- memory ---- */

/* Parts of one room, one after another. Without a room they are only counted; UINT64_MAX: too many. */
typedef struct room {
    uint8_t *bytes;
    uint64_t at;
} room;

static void *part(room *r, uint64_t n, uint64_t of, uint64_t size) {
    uint64_t bytes, at = r->at;
    if (__builtin_mul_overflow(n, of, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > UINT64_MAX / 4 || __builtin_add_overflow(at, gguf_round_up(bytes, ALIGNMENT), &r->at)) {
        r->at = UINT64_MAX;
        return NULL;
    }
    return r->bytes ? r->bytes + at : NULL;
}

static uint64_t work_rows(const forward_model *m) {
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        const layer_plan *l = &m->layers[i];
        uint64_t attention = m->latent ? latent_rows(m, l) : attention_rows(m, l);
        uint64_t ffn = l->routed ? experts_rows(m, l) : ffn_rows(m, l);
        if (attention > most) most = attention;
        if (ffn > most) most = ffn;
    }
    return most;
}

/* All of a batch's pointers, or their sizes alone. */
static void lay_out(forward_batch *b, room *r) {
    const forward_model *m = b->model;
    uint64_t tokens = b->context * b->most_windows, stride = forward_stride(tokens), used = m->experts_used;
    uint64_t threads = (uint64_t)b->threads;
    b->stride = stride;
    b->normed = part(r, m->sizes.width, stride, sizeof(float));
    b->part = part(r, m->sizes.width, stride, sizeof(float));
    b->work = part(r, work_rows(m), stride, sizeof(float));
    b->turn_stride = forward_stride(b->context);
    for (int local = 0; local < 2; local++) {
        b->cosine[local] = part(r, m->turned / 2, b->turn_stride, sizeof(float));
        b->sine[local] = part(r, m->turned / 2, b->turn_stride, sizeof(float));
    }
    if (m->temperature != 0) b->temperature = part(r, 1, b->turn_stride, sizeof(float));
    /* scores of some queries, and a head's keys where they are put together */
    b->scores_each = b->turn_stride * (QUERIES + (m->latent ? m->head : 0));
    b->scores = part(r, b->scores_each, threads, sizeof(float));
    b->chosen = part(r, tokens, used, sizeof(uint32_t));
    b->chosen_weight = part(r, tokens, used, sizeof(float));
    b->routed_token = part(r, tokens, used, sizeof(uint32_t));
    b->routed_weight = part(r, tokens, used, sizeof(float));
    b->routed_begin = part(r, m->experts + 1, 1, sizeof(uint32_t));
    b->group_score = part(r, m->groups, threads, sizeof(float));
}

static bool countable(size_t context, size_t windows, int threads) {
    return context >= 1 && context <= MOST_CONTEXT && windows >= 1 && windows <= MOST_TOKENS / context &&
           threads >= 1 && threads <= 1 << 16;
}

uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads) {
    forward_batch b = {.model = m, .context = context, .most_windows = windows, .threads = threads};
    room r = {0};
    if (!countable(context, windows, threads)) return UINT64_MAX;
    lay_out(&b, &r);
    uint64_t products = matmul_bytes(threads);
    return r.at > UINT64_MAX - products ? UINT64_MAX : r.at + products;
}

forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, int threads,
                                 gq_error *e) {
    if (!countable(context, windows, threads)) {
        gq_fail_usage(
            e,
            "%zu windows of %zu tokens on %d threads, expected at least one of each, and at most %d "
            "tokens in a window",
            windows, context, threads, MOST_CONTEXT);
        return NULL;
    }
    forward_batch *b = calloc(1, sizeof *b);
    if (!b) return gq_fail_memory(e, sizeof *b), NULL;
    *b = (forward_batch){.model = m, .context = context, .most_windows = windows};
    b->threads = forward_threads(threads);
    room r = {0};
    lay_out(b, &r);
    r.bytes = b->room = r.at > SIZE_MAX / 2 ? NULL : aligned_alloc(ALIGNMENT, r.at);
    if (!b->room) {
        gq_fail_memory(e, r.at);
        forward_batch_free(b);
        return NULL;
    }
    memset(b->room, 0, r.at);
    r.at = 0;
    lay_out(b, &r);
    forward_batch_windows(b, windows);
    b->products = matmul_new(m->codecs, b->threads, e);
    if (b->products && batch_fill_rope(b, e)) return b;
    forward_batch_free(b);
    return NULL;
}

void forward_batch_windows(forward_batch *b, size_t windows) {
    b->windows = windows < b->most_windows ? windows : b->most_windows;
    b->tokens = b->windows * b->context;
}

size_t forward_batch_tokens(const forward_batch *b) { return b->tokens; }

void forward_batch_free(forward_batch *b) {
    if (!b) return;
    matmul_free(b->products);
    free(b->room);
    free(b);
}

float *forward_activations(size_t features, size_t stride, gq_error *e) {
    room r = {0};
    part(&r, features, stride, sizeof(float));
    float *x = r.at > SIZE_MAX / 2 ? NULL : aligned_alloc(ALIGNMENT, r.at ? r.at : ALIGNMENT);
    if (!x) return gq_fail_memory(e, r.at), NULL;
    return memset(x, 0, r.at);
}

/* ---- what the parts share ---- */

void batch_multiply(forward_batch *b, slot s, size_t matrix, const float *x, size_t x_stride, float *y,
                    size_t y_stride, size_t tokens) {
    const forward_layer *l = b->layer;
    const gguf_tensor *t = l->plan->weight[s];
    size_t rows = t->ne[1], bytes = gguf_type_bytes(t->type, t->ne[0]);
    matmul_weights w = {l->data[s] + matrix * rows * bytes, t->type->id, rows, t->ne[0], bytes};
    matmul_run(b->products, &w, x, x_stride, y, y_stride, tokens);
    if (!l->bias_values[s]) return;
    const float *bias = l->bias_values[s] + matrix * rows;
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < rows; r++) b->model->elements->add(y + r * y_stride, bias[r], tokens);
}

/* The first token in the first row where something is not finite; false: there is none. */
static bool find_not_finite(const forward_batch *b, const forward_inputs *in, size_t *row, size_t *token) {
    size_t bad = SIZE_MAX;
#pragma omp parallel for num_threads(b->threads) reduction(min : bad)
    for (size_t r = 0; r < in->features; r++)
        if (r < bad && b->model->codecs->first_not_finite(in->x + r * in->stride, in->tokens) < in->tokens)
            bad = r;
    if (bad == SIZE_MAX) return false;
    *row = bad;
    *token = b->model->codecs->first_not_finite(in->x + bad * in->stride, in->tokens);
    return true;
}

bool batch_inputs(forward_batch *b, const forward_inputs *in) {
    size_t row, token;
    if (find_not_finite(b, in, &row, &token)) {
        const char *what = in->n_weights ? in->weights[0]->name : "a layer";
        return gq_fail(b->e,
                       "%s: what flows into %s is not finite: feature %zu of the batch's token %zu is %g",
                       b->model->path, what, row, token, (double)in->x[row * in->stride + token]);
    }
    return !b->site || !in->n_weights || b->site->take(b->site->data, in, b->e);
}

bool batch_site(forward_batch *b, const float *x, size_t stride, size_t features, size_t tokens,
                size_t matrix, const slot *slots) {
    forward_inputs in = {
        .matrix = matrix, .matrices = 1, .x = x, .features = features, .tokens = tokens, .stride = stride};
    for (; *slots != SLOTS; slots++) {
        const gguf_tensor *t = b->layer->plan->weight[*slots];
        if (!t) continue;
        in.weights[in.n_weights++] = t;
        in.matrices = t->ne[2];
    }
    return batch_inputs(b, &in);
}

void batch_norm(forward_batch *b, const norm_groups *g) {
    const forward_model *m = b->model;
    size_t spans = (b->tokens + ELEMENT_SPAN - 1) / ELEMENT_SPAN;
#pragma omp parallel for num_threads(b->threads)
    for (size_t i = 0; i < g->groups * spans; i++) {
        size_t group = i / spans, first = i % spans * ELEMENT_SPAN, rows = group * g->features;
        size_t n = b->tokens - first < ELEMENT_SPAN ? b->tokens - first : ELEMENT_SPAN;
        m->elements->norm(&(norm_task){
            .x = g->x + rows * g->x_stride + first,
            .y = g->y + rows * g->y_stride + first,
            .x_stride = g->x_stride,
            .y_stride = g->y_stride,
            .features = g->features,
            .n = n,
            .weight = g->weight + group * g->weight_step,
            .bias = g->bias,
            .eps = m->eps,
            .centre = m->arch->layer_norm,
        });
    }
}

void batch_norm_slot(forward_batch *b, slot s, const float *x, size_t x_stride, size_t features, float *y,
                     size_t y_stride) {
    const forward_layer *l = b->layer;
    batch_norm(b, &(norm_groups){x, l->values[s], l->bias_values[s], y, x_stride, y_stride, features, 1, 0});
}

void batch_add(forward_batch *b, float *x, size_t x_stride, const float *y, size_t y_stride, size_t rows,
               float factor) {
#pragma omp parallel for num_threads(b->threads)
    for (size_t r = 0; r < rows; r++)
        b->model->elements->add_scaled(x + r * x_stride, y + r * y_stride, factor, b->tokens);
}
