/* The indexer of sparse attention. It has queries of several small heads, one key per token that all heads
 * share, and a weight per head:
 *
 *     score[i][j] = sum over heads h of weight_h[i] max(0, query_h[i] . key[j])
 *
 * A token attends to the `top` keys with the largest scores among those up to its own position, of equal ones
 * to the first. Where keys are pooled, so many tokens of a text have one key, a sum of theirs by a softmax of
 * what a second matrix gives, channel by channel; a token attends to the tokens of the best pools that end
 * before it or with it, and to those behind the last of them. In windows of no more tokens than `top` that is
 * all of them, and nothing is computed. Work is cut into blocks of QUERIES queries of one window, as in
 * attention; a block's scores stand as [key][query]. */
#include "forward/graph/attention/indexer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POOLED = 128 };

void indexer_read_sizes(key_reader *r, size_t *heads, size_t *head, size_t *top) {
    *heads = key_number_needed(r, "attention.indexer.head_count", 1, MODEL_MOST);
    *head = key_number_needed(r, "attention.indexer.key_length", 1, MODEL_MOST);
    *top = key_number_needed(r, "attention.indexer.top_k", 1, MODEL_MOST);
}

void indexer_check_head(const indexer_numbers *n, key_reader *r, size_t rotated) {
    if (n->heads && n->head < rotated)
        key_fail(r, "attention.indexer.key_length", "is %zu, fewer than rope.dimension_count: %zu", n->head,
                 rotated);
}

void indexer_read_keys(indexer_numbers *n, const forward_model *m, key_reader *r) {
    if (m->arch->graph.indexer == INDEXER_NONE) return;
    if (m->arch->graph.indexer == INDEXER_LAST && !key_number(r, "attention.indexer.top_k", 0, 0, MODEL_MOST))
        return;
    indexer_read_sizes(r, &n->heads, &n->head, &n->top);
    if (m->arch->graph.indexer == INDEXER_POOLED) {
        n->pool = key_number_needed(r, "attention.indexer.kpool", 2, MOST_POOLED);
        if (r->ok && n->top % n->pool)
            key_fail(r, "attention.indexer.top_k",
                     "is %zu, expected a multiple of attention.indexer.kpool: %zu", n->top, n->pool);
        if (!key_bool(r, "attention.indexer.kpool_select_tail", true))
            key_fail(r, "attention.indexer.kpool_select_tail",
                     "is false: attention without the most recent tokens is not supported");
        n->eps = (float)key_float(r, "attention.layer_norm_epsilon", 1e-38, 0, 1);
        return;
    }
    static const float eps[] = {[INDEXER_NEOX] = 1e-6f, [INDEXER_BY_TYPE] = 1e-38f, [INDEXER_LAST] = 0};
    n->eps = eps[m->arch->graph.indexer];
}

bool indexer_layer_chooses(const forward_model *m, key_reader *r, size_t layer) {
    key_list types = key_list_of(r, "attention.indexer.types");
    if (m->arch->graph.indexer == INDEXER_NEOX) return true;
    if (m->arch->graph.indexer == INDEXER_LAST) return key_number_at(r, &types, layer, 0, 0, 1);
    if (types.kv) return key_number_at(r, &types, layer, 1, 0, 1);
    return !arch_chooses_by_number(m->arch, m->sizes.trained) || arch_layer_chooses(layer);
}

void indexer_find_tensors(const indexer_numbers *n, tensor_finder *f, uint64_t q_rank, bool chooses) {
    uint64_t d = f->m->sizes.width;
    presence is = chooses ? REQUIRED : UNUSED;
    tensors_take_weight(f, WEIGHT_INDEXER_Q_B, is, SHAPE(q_rank, n->heads * n->head));
    tensors_take_weight(f, WEIGHT_INDEXER_K, is, SHAPE(d, n->head));
    tensors_take_weight(f, WEIGHT_INDEXER_K_NORM, is, SHAPE(n->head));
    tensors_take_bias(f, WEIGHT_INDEXER_K_NORM, is, SHAPE(n->head));
    tensors_take_weight(f, WEIGHT_INDEXER_PROJ, is, SHAPE(d, n->heads));
    if (!n->pool) return;
    tensors_take_weight(f, WEIGHT_INDEXER_COMPRESSOR_GATE, is, SHAPE(d, n->head));
    tensors_take_weight(f, WEIGHT_INDEXER_COMPRESSOR_APE, is, SHAPE(n->head, n->pool));
}

uint64_t indexer_count_rows(const indexer_numbers *n) {
    return n->heads ? (uint64_t)n->heads * n->head + (n->pool ? 2 : 1) * n->head + n->heads : 0;
}

void indexer_lay_out(const indexer_numbers *n, indexer_scratch *own, const forward_batch *b, scratch *s) {
    if (!n->heads || b->context <= n->top) return;
    uint64_t blocks = ceil_div(b->context, QUERIES) * b->most_windows;
    own->chosen = scratch_take(s, blocks, b->context, sizeof *own->chosen);
    own->sorted = scratch_take(s, b->context, s->threads, sizeof *own->sorted);
}

/* ---- a choice between layers ---- */

/* The halves of a key's bits for a block of queries are two rows of the hidden state, in the key's column. */
uint64_t indexer_choice_rows(const indexer_numbers *n, size_t context) {
    return n->heads && context > n->top ? 2 * ceil_div(context, QUERIES) : 0;
}

void indexer_copy_choice(const forward_batch *b, const indexer_scratch *own, float *rows, size_t stride,
                         bool to_rows) {
    size_t blocks = ceil_div(b->context, QUERIES);
    for (size_t i = 0; i < b->windows * blocks; i++)
        for (size_t j = 0; j < b->context; j++) {
            uint8_t *bits = (uint8_t *)(own->chosen + i * b->context + j);
            float *low = rows + i % blocks * 2 * stride + i / blocks * b->context + j, *high = low + stride;
            enum { HALF = sizeof(float) };
            memcpy(to_rows ? (void *)low : bits, to_rows ? bits : (void *)low, HALF);
            memcpy(to_rows ? (void *)high : bits + HALF, to_rows ? bits + HALF : (void *)high, HALF);
        }
}

/* ---- scores ---- */

typedef struct indexer_run {
    forward_batch *b;
    const indexer_task *t;
    const float *q, *k, *weight;
} indexer_run;

void indexer_add_head(const float *z, const float *weight, float *sum, size_t keys, size_t n) {
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < n; i++) {
            float product = z[j * QUERIES + i];
            sum[j * QUERIES + i] += weight[i] * (product > 0 ? product : 0);
        }
}

static int indexer_compare(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

void indexer_choose_keys(size_t top, const float *sum, size_t query, size_t keys, uint64_t *chosen,
                         float *sorted) {
    size_t left = top;
    for (size_t j = 0; j < keys; j++) sorted[j] = sum[j * QUERIES + query];
    qsort(sorted, keys, sizeof *sorted, indexer_compare);
    float least = keys > top ? sorted[top - 1] : -INFINITY;
    for (size_t j = 0; j < keys; j++) left -= keys > top && sum[j * QUERIES + query] > least;
    for (size_t j = 0; j < keys; j++) {
        float score = sum[j * QUERIES + query];
        bool is_chosen = keys <= top || score > least || (score == least && left > 0);
        if (keys > top && score == least && left > 0) left--;
        if (is_chosen) chosen[j] |= UINT64_C(1) << query;
    }
}

typedef struct indexer_pooling {
    const forward_batch *b;
    const indexer_numbers *n;
    float *k;
    const float *gate;
} indexer_pooling;

/* Makes of the pools that queries have chosen the keys that they attend to. */
static void indexer_spread(size_t pool, const query_block *of, const uint64_t *best, uint64_t *chosen) {
    size_t end = of->first + of->queries;
    for (size_t j = 0; j < end / pool * pool; j++) chosen[j] |= best[j / pool];
    for (size_t q = 0; q < of->queries; q++)
        for (size_t at = of->first + q + 1, j = at / pool * pool; j < at; j++) chosen[j] |= UINT64_C(1) << q;
}

static void indexer_run_block(void *data, size_t i, int thread) {
    const indexer_run *r = data;
    const forward_batch *b = r->b;
    const indexer_numbers *n = r->t->n;
    query_block of = query_block_of(b, i);
    size_t s = b->stride, each = n->pool ? n->pool : 1, keys = (of.first + of.queries) / each;
    float *z = r->t->scores + (size_t)thread * r->t->scores_each, *sum = z + keys * QUERIES;
    uint64_t *chosen = r->t->own->chosen + i * b->context;
    memset(sum, 0, keys * QUERIES * sizeof *sum);
    memset(chosen, 0, b->context * sizeof *chosen);
    for (size_t h = 0; keys && h < n->heads; h++) {
        query_block_multiply(b, &of, thread, r->q + h * n->head * s, r->k + of.begin, s, n->head, keys, z);
        indexer_add_head(z, r->weight + h * s + of.begin + of.first, sum, keys, of.queries);
    }
    float *sorted = r->t->own->sorted + (size_t)thread * b->context;
    uint64_t *best = n->pool ? (uint64_t *)(void *)z : chosen; /* the products are used up by then */
    if (n->pool) memset(best, 0, keys * sizeof *best);
    for (size_t q = 0; q < of.queries; q++)
        indexer_choose_keys(n->top / each, sum, q, (of.first + q + 1) / each, best, sorted);
    if (n->pool) indexer_spread(n->pool, &of, best, chosen);
}

float indexer_mean(const element_kernels *k, const float *x, float *score, size_t n) {
    float most = -INFINITY, sum = 0, mean = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, score[i]);
    for (size_t i = 0; i < n; i++) score[i] -= most;
    k->exponential(score, n);
    for (size_t i = 0; i < n; i++) sum += score[i];
    for (size_t i = 0; i < n; i++) mean += x[i] * (score[i] / sum);
    return mean;
}

/* One channel of all pools of the batch; a pool's key stands in the column of the text's token of its number. */
static void indexer_pool_row(void *data, size_t c, int) {
    const indexer_pooling *of = data;
    const forward_batch *b = of->b;
    const float *ape = b->layer->values[WEIGHT_INDEXER_COMPRESSOR_APE];
    for (size_t i = 0; i < b->n_spans; i++) {
        float *x = of->k + c * b->stride + b->spans[i].first;
        const float *gate = of->gate + c * b->stride + b->spans[i].first;
        for (size_t p = 0; p < b->spans[i].tokens / of->n->pool; p++) {
            float score[MOST_POOLED];
            size_t n = of->n->pool, first = p * n;
            for (size_t t = 0; t < n; t++) score[t] = gate[first + t] + ape[t * of->n->head + c];
            x[p] = indexer_mean(b->model->elements, x + first, score, n);
        }
    }
}

void indexer_choose(forward_batch *b, const sublayer_spec *p, const indexer_task *t) {
    const indexer_numbers *n = t->n;
    const attention_layer *l = p->numbers;
    bool neox = b->model->arch->graph.indexer == INDEXER_NEOX;
    size_t s = b->stride, plain = 0;
    float *q = t->work, *k = q + n->heads * n->head * s, *weight = k + n->head * s;
    if (b->model->arch->graph.indexer == INDEXER_LAST) plain = n->head - t->rotated;
    batch_multiply(b, WEIGHT_INDEXER_Q_B, 0, t->low, s, q, s, b->tokens);
    batch_multiply(b, WEIGHT_INDEXER_K, 0, t->x, t->x_stride, k, s, b->tokens);
    batch_norm(b, &(norm_groups){.y = k,
                                 .weight = b->layer->values[WEIGHT_INDEXER_K_NORM],
                                 .bias = b->layer->bias_values[WEIGHT_INDEXER_K_NORM],
                                 .features = n->head,
                                 .centers = true,
                                 .eps = n->eps});
    batch_multiply(b, WEIGHT_INDEXER_PROJ, 0, t->x, t->x_stride, weight, s, b->tokens);
    batch_scale(b, weight, s, n->heads, 1 / sqrtf((float)(n->head * n->heads)));
    if (l->has_rope) {
        batch_rope_pairs(b, p, q + plain * s, n->heads, n->head, neox);
        batch_rope_pairs(b, p, k + plain * s, 1, 0, neox);
    }
    if (n->pool) {
        float *gate = weight + n->heads * s;
        batch_multiply(b, WEIGHT_INDEXER_COMPRESSOR_GATE, 0, t->x, t->x_stride, gate, s, b->tokens);
        threads_for(b->pool, n->head, THREADS_EVEN, indexer_pool_row, &(indexer_pooling){b, n, k, gate});
    }
    indexer_run r = {b, t, q, k, weight};
    threads_for(b->pool, b->windows * ceil_div(b->context, QUERIES), 1, indexer_run_block, &r);
}
