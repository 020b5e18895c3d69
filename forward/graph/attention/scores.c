/* Sums of forward/graph/attention/scores.h. A thread takes a head of the keys at a time, with all heads of
 * queries that it serves, so nothing is shared. The weights of a head are computed a block of queries at a
 * time, exactly as attention does (attention.c); of these, the rows and columns at the positions that are
 * looked at are kept. Then each of these positions makes one product of a matrix with itself. */
#include "forward/graph/attention/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward/graph/attention/attention.h"

enum { OUTPUT_ROWS = 64 }; /* of attn_output, decoded at once */

size_t forward_row_groups(const forward_model *m, size_t layer, forward_row_group *groups) {
    const layer_spec *l = &m->layers[layer];
    const sublayer_spec *both[] = {&l->mixer, &l->beside};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        const model_sublayer *p = both[i]->sublayer;
        if (p && p->kind->row_groups) return p->kind->row_groups(m, l, both[i], groups);
    }
    return 0;
}

/* ---- memory ---- */

/* The arrays of one thread. */
typedef struct scores_memory {
    float *seen,
        *slope;     /* [position looked at][context]: weights of a query's keys; slopes of the cap there */
    float *met;     /* the same: what the queries of a key count */
    float *vectors; /* [token][features]: keys or queries; before that, a block of scores */
    float *product; /* [features][features] */
    float *mean;    /* [features] */
} scores_memory;

/* The sizes that decide it. */
typedef struct scores_sizes {
    size_t context, looked; /* looked: positions that are looked at */
    size_t features, stride;
} scores_sizes;

static scores_sizes scores_sizes_of(size_t context, size_t every, size_t features) {
    return (scores_sizes){context, ceil_div(context, every), features, forward_stride(features)};
}

static void scores_lay_out(scores_memory *to, const scores_sizes *z, memory_ledger *l) {
    uint64_t weights = mul_sat(z->looked, z->context);
    to->seen = memory_take(l, weights, sizeof(float));
    to->slope = memory_take(l, weights, sizeof(float));
    to->met = memory_take(l, weights, sizeof(float));
    to->vectors = memory_take(l, mul_sat(z->context, max(z->stride, QUERIES)), sizeof(float));
    to->product = memory_take(l, mul_sat(z->features, z->stride), sizeof(float));
    to->mean = memory_take(l, z->stride, sizeof(float));
}

static void scores_release(scores_memory *m) {
    free(m->seen), free(m->slope), free(m->met), free(m->vectors), free(m->product), free(m->mean);
}

/* ---- weights of a head ---- */

typedef struct scores_task {
    const forward_scores *of;
    const forward_row_group *queries, *keys; /* keys NULL: not wanted */
    double *query_metric, *key_metric;
    scores_sizes sizes;
    size_t window, every;
    const forward_mark *marks; /* of the window's tokens; NULL: all count alike */
    scores_memory *memory;     /* of each thread */
} scores_task;

static const attention_numbers *scores_numbers(const forward_scores *s) {
    return s->sublayer->sublayer->numbers;
}

/* The weight of a token of the window. */
static float mark_weight(const scores_task *t, size_t token) {
    return t->marks ? (float)t->marks[token].weight / FORWARD_WEIGHT_ONE : 1;
}

/* The text of a token of the window, and the token's position in it. */
static batch_span text_of(const scores_task *t, size_t token, size_t *position) {
    batch_span text = batch_span_at(t->of->batch, t->window, token);
    *position = t->window * t->sizes.context + token - text.first;
    return text;
}

/* Keeps the weights of a block of queries at the positions that are looked at. capped: the scores as the
 * softmax takes them, where they are capped; else NULL. */
static void keep_weights(const scores_task *t, const attention_block *b, const float *capped,
                         scores_memory *m) {
    float cap = scores_numbers(t->of)->score_cap;
    size_t context = t->sizes.context;
    size_t begin = b->of.begin - t->window * context; /* of their text in the window */
    for (size_t j = 0; j < b->keys; j++)
        for (size_t i = 0; i < b->of.queries; i++) {
            size_t query = begin + b->of.first + i, key = begin + b->key + j;
            if (key > query + b->ahead || (query % t->every && key % t->every)) continue;
            float p = b->scores[j * QUERIES + i], bent = capped ? capped[j * QUERIES + i] / cap : 0;
            float slope = 1 - bent * bent;
            if (query % t->every == 0) {
                size_t at = query / t->every * context + key;
                m->seen[at] = p, m->slope[at] = slope;
            }
            if (key % t->every == 0)
                m->met[key / t->every * context + query] =
                    mark_weight(t, query) * p * (1 - p) * slope * slope;
        }
}

static void weigh_head(const scores_task *t, size_t head, scores_memory *m, int thread) {
    const forward_scores *s = t->of;
    const attention_numbers *n = scores_numbers(s);
    const element_kernels *k = s->batch->model->elements;
    size_t context = t->sizes.context, bytes = t->sizes.looked * context * sizeof(float);
    memset(m->seen, 0, bytes), memset(m->slope, 0, bytes), memset(m->met, 0, bytes);
    for (size_t first = 0; first < context; first += QUERIES) {
        attention_block b = attention_score(s->batch, s->sublayer, s->heads, t->window, head, first, thread);
        float *capped = n->score_cap != 0 ? m->vectors : NULL;
        if (capped) {
            memcpy(capped, b.scores, b.keys * QUERIES * sizeof *capped);
            for (size_t j = 0; j < b.keys; j++) {
                k->scale(capped + j * QUERIES, n->score_scale, QUERIES);
                k->cap(capped + j * QUERIES, n->score_cap, QUERIES);
            }
        }
        attention_weigh(s->batch, s->sublayer, s->heads, &b);
        keep_weights(t, &b, capped, m);
    }
}

/* ---- matrices of a position ---- */

/* to[row][row] = the sum over n columns of each one's products with itself, x[n][stride]. */
static void square_columns(matmul *by, int thread, const float *x, size_t stride, size_t rows, size_t n,
                           float *to, size_t to_stride) {
    matmul_within(by, thread,
                  &(matmul_product){x, x, to, stride, stride, to_stride, rows, n, rows, .transposed = true});
}

/* Undoes what the model does to a head's rows on their way to the scores, on both sides of the product. */
static void take_back(const scores_task *t, size_t token, size_t rows, scores_memory *m) {
    const forward_scores *s = t->of;
    const attention_layer *l = s->sublayer->numbers;
    const rope_numbers *r = &scores_numbers(s)->rope;
    const rope_tables *tables =
        &((const attention_scratch *)batch_own(s->batch, s->sublayer->sublayer))->rope;
    size_t first = s->heads->rotated_from, stride = t->sizes.stride,
           pairs = l->has_rope && first < rows ? r->angles[l->is_local].rotated / 2 : 0;
    size_t position;
    batch_span text = text_of(t, token, &position);
    size_t own = rope_rows_of(tables, &text, pairs) + position;
    for (size_t i = 0; i < pairs; i++) {
        float cosine = tables->cosine[l->is_local][i * tables->rotation_stride + own];
        float sine = tables->sine[l->is_local][i * tables->rotation_stride + own];
        size_t a = first + (r->neox ? i : 2 * i), b = first + (r->neox ? i + pairs : 2 * i + 1);
        for (size_t c = 0; c < rows; c++) {
            float *u = m->product + a * stride + c, *v = m->product + b * stride + c, x = *u, y = *v;
            *u = cosine * x + sine * y, *v = cosine * y - sine * x;
        }
        for (size_t c = 0; c < rows; c++) {
            float *u = m->product + c * stride + a, *v = m->product + c * stride + b, x = *u, y = *v;
            *u = cosine * x + sine * y, *v = cosine * y - sine * x;
        }
    }
}

/* Multiplies both sides of the product by the weights of the norm of q or k. */
static void take_back_norm(const scores_task *t, bool is_query, size_t head, size_t rows, scores_memory *m) {
    const forward_scores *s = t->of;
    const float *gains = s->batch->layer->values[is_query ? WEIGHT_ATTN_Q_NORM : WEIGHT_ATTN_K_NORM];
    size_t stride = t->sizes.stride, weights = s->heads->norm_stride;
    if (!gains || s->heads->norm == QK_NONE || s->heads->norm == QK_SCALED) return;
    gains += head * weights;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++) m->product[i * stride + j] *= gains[i] * gains[j];
}

/* Takes a product to the rows of the weight, and adds it. */
static void add_position(const scores_task *t, bool is_query, size_t position, size_t head, double factor,
                         scores_memory *m, double *to) {
    size_t rows = (is_query ? t->queries : t->keys)->rows;
    bool late = t->of->batch->model->arch->graph.qk_after_rope;
    if (late) take_back_norm(t, is_query, head, rows, m);
    take_back(t, position, rows, m);
    if (!late) take_back_norm(t, is_query, head, rows, m);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            to[i * rows + j] += factor * (double)m->product[i * t->sizes.stride + j];
}

/* Returns a feature of a head of the keys, at the window's first token. */
static const float *key_feature(const scores_task *t, size_t kv, size_t c) {
    const attention_heads *h = t->of->heads;
    size_t s = t->of->batch->stride, begin = t->window * t->sizes.context, own = h->head - h->tail;
    return (c < own ? h->k + (kv * h->k_head_stride + c) * s : h->k_tail + (c - own) * s) + begin;
}

static const float *query_feature(const scores_task *t, size_t head, size_t c) {
    const attention_heads *h = t->of->heads;
    return h->q + (head * (h->q_head_stride ? h->q_head_stride : h->head) + c) * t->of->batch->stride +
           t->window * t->sizes.context;
}

/* Adds C of a query: of its keys less their mean, and of that mean as far as the weights do not add up to 1. */
static void add_query(const scores_task *t, size_t position, size_t head, size_t kv, scores_memory *m,
                      int thread) {
    const attention_scratch *own = batch_own(t->of->batch, t->of->sublayer->sublayer);
    const attention_layer *l = t->of->sublayer->numbers;
    size_t at = position / t->every * t->sizes.context, rows = t->queries->rows,
           n = l->both_ways ? t->sizes.context : position + 1;
    const float *p = m->seen + at, *slope = m->slope + at;
    size_t in_text;
    text_of(t, position, &in_text);
    float sum = 0, heat = own->rope.temperature && l->is_tempered ? own->rope.temperature[in_text] : 1;
    for (size_t j = 0; j < n; j++) sum += p[j];
    for (size_t c = 0; c < rows; c++) {
        const float *k = key_feature(t, kv, c);
        float mean = 0;
        for (size_t j = 0; j < n; j++) mean += p[j] * slope[j] * k[j];
        for (size_t j = 0; j < n; j++)
            m->vectors[j * t->sizes.stride + c] = sqrtf(p[j]) * (slope[j] * k[j] - mean);
        m->mean[c] = mean;
    }
    square_columns(t->of->batch->products, thread, m->vectors, t->sizes.stride, rows, n, m->product,
                   t->sizes.stride);
    float left = sum < 1 ? 1 - sum : 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < rows; j++)
            m->product[i * t->sizes.stride + j] += left * m->mean[i] * m->mean[j];
    add_position(t, true, position, head, (double)heat * (double)heat * (double)mark_weight(t, position), m,
                 t->query_metric + head * rows * rows);
}

static void add_key(const scores_task *t, size_t position, size_t head, size_t kv, scores_memory *m,
                    int thread) {
    const attention_layer *l = t->of->sublayer->numbers;
    size_t rows = t->keys->rows, from = l->both_ways ? 0 : position, n = t->sizes.context - from;
    const float *weight = m->met + position / t->every * t->sizes.context + from;
    for (size_t c = 0; c < rows; c++) {
        const float *q = query_feature(t, head, c) + from;
        for (size_t j = 0; j < n; j++) m->vectors[j * t->sizes.stride + c] = sqrtf(weight[j]) * q[j];
    }
    square_columns(t->of->batch->products, thread, m->vectors, t->sizes.stride, rows, n, m->product,
                   t->sizes.stride);
    add_position(t, false, position, kv, 1, m, t->key_metric + kv * rows * rows);
}

static void add_heads(void *data, size_t kv, int thread) {
    const scores_task *t = data;
    const attention_heads *h = t->of->heads;
    scores_memory *m = &t->memory[thread];
    for (size_t head = 0; head < h->heads; head++) {
        if (head * h->kv_heads / h->heads != kv) continue;
        weigh_head(t, head, m, thread);
        for (size_t at = 0; at < t->sizes.context; at += t->every) {
            add_query(t, at, head, kv, m, thread);
            if (t->keys) add_key(t, at, head, kv, m, thread);
        }
    }
}

/* ---- the interface ---- */

static const forward_row_group *group_of_kind(const forward_row_group *groups, size_t n,
                                              forward_row_kind kind) {
    for (size_t i = 0; i < n; i++)
        if (groups[i].kind == kind) return &groups[i];
    return NULL;
}

bool forward_scores_add(const forward_scores *s, const forward_row_group *groups, size_t n, size_t window,
                        const forward_mark *marks, size_t every, double *const *metrics, gq_error *e) {
    scores_task t = {.of = s,
                     .marks = marks,
                     .queries = group_of_kind(groups, n, ROWS_OF_QUERIES),
                     .keys = group_of_kind(groups, n, ROWS_OF_KEYS),
                     .sizes = scores_sizes_of(s->batch->context, every, s->heads->head),
                     .window = window,
                     .every = every};
    size_t threads = (size_t)threads_pool_most(s->batch->pool);
    memory_ledger l = {.failed = false};
    if (!t.queries) return true;
    t.query_metric = metrics[t.queries - groups];
    if (t.keys) t.key_metric = metrics[t.keys - groups];
    t.memory = memory_take_zeros(&l, threads, sizeof *t.memory);
    for (size_t i = 0; t.memory && i < threads; i++) scores_lay_out(&t.memory[i], &t.sizes, &l);
    bool ok = memory_had(&l, e);
    if (ok) threads_for(s->batch->pool, s->heads->kv_heads, 1, add_heads, &t);
    for (size_t i = 0; t.memory && i < threads; i++) scores_release(&t.memory[i]);
    free(t.memory);
    return ok;
}

/* ---- values ---- */

typedef struct values_task {
    const forward_scores *of;
    const forward_row_group *group;
    double *metric;
    const float *rows; /* of attn_output: n of them, `columns` floats each */
    float *products;   /* [head of the values][value][stride] */
    size_t n, columns, stride;
} values_task;

static void add_value_head(void *data, size_t kv, int thread) {
    const values_task *t = data;
    const attention_heads *h = t->of->heads;
    size_t values = t->group->rows, stride = t->stride;
    float *product = t->products + kv * values * stride;
    double *metric = t->metric + kv * values * values;
    for (size_t head = 0; head < h->heads; head++) {
        if (head * h->kv_heads / h->heads != kv) continue;
        square_columns(t->of->batch->products, thread, t->rows + head * values, t->columns, values, t->n,
                       product, stride);
        for (size_t i = 0; i < values; i++)
            for (size_t j = 0; j < values; j++) metric[i * values + j] += (double)product[i * stride + j];
    }
}

/* Takes memory for rows of attn_output and for the products of the heads. */
static void values_lay_out(values_task *t, float **rows, memory_ledger *l) {
    *rows = memory_take(l, mul_sat(OUTPUT_ROWS, t->columns), sizeof(float));
    t->products = memory_take(l, mul_sat(t->group->heads, mul_sat(t->group->rows, t->stride)), sizeof(float));
}

static values_task values_task_of(const forward_row_group *group, size_t columns) {
    return (values_task){.group = group, .columns = columns, .stride = forward_stride(group->rows)};
}

/* Decodes rows of the layer's own attn_output. */
static bool decode_output_rows(const forward_batch *b, uint64_t first, uint64_t n, float *to, gq_error *e) {
    const model_tensor *t = b->layer->plan->weight[WEIGHT_ATTN_OUTPUT];
    for (uint64_t end = first + n, some; first < end; first += some, to += some * t->ne[0]) {
        some = end - first;
        const uint8_t *rows = layer_rows(b->layer, WEIGHT_ATTN_OUTPUT, first, &some, b->pool, e);
        if (!rows) return false;
        codec_decode_rows(&b->model->codecs->codecs[t->type->id], rows, t->ne[0], to, some * t->ne[0]);
    }
    return true;
}

bool forward_scores_add_values(const forward_scores *s, const forward_row_group *group, double *metric,
                               gq_error *e) {
    const forward_layer *layer = s->batch->layer;
    const model_tensor *out = layer->plan->weight[WEIGHT_ATTN_OUTPUT];
    const float *gains = s->sublayer->after == WEIGHT_SLOTS ? NULL : layer->values[s->sublayer->after];
    size_t columns = out->ne[0];
    values_task t = values_task_of(group, columns);
    memory_ledger l = {.failed = false};
    float *rows;
    t.of = s, t.metric = metric;
    values_lay_out(&t, &rows, &l);
    t.rows = rows;
    bool ok = memory_had(&l, e);
    for (size_t first = 0; ok && first < out->ne[1]; first += t.n) {
        t.n = min(out->ne[1] - first, OUTPUT_ROWS);
        if (!(ok = decode_output_rows(s->batch, first, t.n, rows, e))) break;
        for (size_t i = 0; gains && i < t.n * columns; i++) rows[i] *= gains[first + i / columns];
        threads_for(s->batch->pool, group->heads, 1, add_value_head, &t);
    }
    free(rows), free(t.products);
    return ok;
}

uint64_t forward_scores_bytes(const forward_row_group *groups, size_t n, size_t context, size_t every,
                              int threads) {
    const forward_row_group *queries = group_of_kind(groups, n, ROWS_OF_QUERIES),
                            *values = group_of_kind(groups, n, ROWS_OF_VALUES);
    memory_ledger of_scores = {.counts = true}, of_values = {.counts = true};
    if (queries) {
        scores_sizes z = scores_sizes_of(context, every, queries->rows);
        for (int i = 0; i < threads; i++) scores_lay_out(&(scores_memory){.seen = NULL}, &z, &of_scores);
        memory_take_zeros(&of_scores, (uint64_t)threads, sizeof(scores_memory));
    }
    if (values) { /* attn_output reads all heads of the queries */
        float *rows;
        values_task t =
            values_task_of(values, mul_sat(queries ? queries->heads : values->heads, values->rows));
        values_lay_out(&t, &rows, &of_values);
    }
    return max(of_scores.bytes, of_values.bytes);
}
