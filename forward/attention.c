/* Attention with keys and values per head. */
#include "forward/batch.h"

#include <string.h>

/* Some queries of one head in one window: scores of all keys they see, softmax, mixed values. */
static void attend_queries(const forward_batch *b, const attention_heads *h, size_t window, size_t head,
                           size_t first, int thread) {
    const forward_model *m = b->model;
    size_t n = b->context - first < QUERIES ? b->context - first : QUERIES;
    size_t limit = b->layer->plan->local && m->window < b->context ? m->window : 0;
    size_t key = limit && first >= limit ? first - limit + 1 : 0, keys = first + n - key;
    size_t kv = head * h->kv_heads / h->heads, begin = window * b->context, s = b->stride;
    float *scores = b->scores + (size_t)thread * b->scores_each;
    const float *k = h->k + kv * h->k_step * s + begin + key;
    size_t k_stride = s;
    if (h->tail) {
        float *both = scores + QUERIES * b->turn_stride;
        for (size_t c = 0; c < h->head; c++) {
            const float *from =
                c < h->head - h->tail ? k + c * s : h->k_tail + (c - (h->head - h->tail)) * s + begin + key;
            memcpy(both + c * b->turn_stride, from, keys * sizeof *both);
        }
        k = both, k_stride = b->turn_stride;
    }
    matmul_within(b->products, thread,
                  &(matmul_product){.w = k,
                                    .x = h->q + head * h->head * s + begin + first,
                                    .y = scores,
                                    .w_stride = k_stride,
                                    .x_stride = s,
                                    .y_stride = QUERIES,
                                    .rows = keys,
                                    .columns = h->head,
                                    .tokens = n,
                                    .transposed = true});
    m->elements->softmax(&(softmax_task){.s = scores,
                                         .stride = QUERIES,
                                         .rows = keys,
                                         .n = n,
                                         .scale = m->score_scale,
                                         .cap = m->attention_cap,
                                         .causal = true,
                                         .key = key,
                                         .query = first,
                                         .window = limit,
                                         .sink = h->sinks ? h->sinks + head : NULL});
    matmul_within(b->products, thread,
                  &(matmul_product){.w = h->v + kv * h->v_step * s + begin + key,
                                    .x = scores,
                                    .y = h->o + head * h->value * s + begin + first,
                                    .w_stride = s,
                                    .x_stride = QUERIES,
                                    .y_stride = s,
                                    .rows = h->value,
                                    .columns = keys,
                                    .tokens = n});
}

typedef struct attended {
    const forward_batch *b;
    const attention_heads *h;
    size_t blocks; /* of queries of a head in a window */
} attended;

static void attend_block(void *data, size_t i, int thread) {
    const attended *a = data;
    size_t of_window = a->h->heads * a->blocks;
    attend_queries(a->b, a->h, i / of_window, i % of_window / a->blocks, i % a->blocks * QUERIES, thread);
}

void batch_attend(forward_batch *b, const attention_heads *h) {
    attended a = {b, h, (b->context + QUERIES - 1) / QUERIES};
    threads_for(b->pool, b->windows * h->heads * a.blocks, 1, attend_block, &a);
}

uint64_t attention_rows(const forward_model *m, const layer_plan *l) {
    return 2 * (l->heads + l->kv_heads) * m->head;
}

static void norm_q_and_k(forward_batch *b, float *q, float *k) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    static const slot slots[] = {Q_NORM, K_NORM};
    float *x[] = {q, k};
    size_t heads[] = {l->heads, l->kv_heads};
    bool full = m->arch->qk == QK_FULL;
    for (int i = 0; i < 2 && l->weight[Q_NORM]; i++)
        batch_norm(b, &(norm_groups){.x = x[i],
                                     .y = x[i],
                                     .weight = b->layer->values[slots[i]],
                                     .x_stride = b->stride,
                                     .y_stride = b->stride,
                                     .features = full ? heads[i] * m->head : m->head,
                                     .groups = full ? 1 : heads[i],
                                     .weight_step = m->arch->qk == QK_EACH ? m->head : 0});
}

bool batch_attention(forward_batch *b, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const layer_plan *l = b->layer->plan;
    size_t s = b->stride, q_rows = l->heads * m->head, k_rows = l->kv_heads * m->head, width = m->sizes.width;
    float *q = b->work, *k = q + q_rows * s, *v = k + k_rows * s, *o = v + k_rows * s;
    if (!batch_site(b, x, stride, width, b->tokens, 0, (slot[]){Q, K, V, QKV, SLOTS})) return false;
    if (l->weight[QKV]) {
        batch_multiply(b, QKV, 0, x, stride, q, s, b->tokens);
    } else {
        batch_multiply(b, Q, 0, x, stride, q, s, b->tokens);
        batch_multiply(b, K, 0, x, stride, k, s, b->tokens);
        batch_multiply(b, V, 0, x, stride, v, s, b->tokens);
    }
    if (!m->arch->qk_after_rope) norm_q_and_k(b, q, k);
    if (l->rope) batch_rope(b, q, l->heads, m->head), batch_rope(b, k, l->kv_heads, m->head);
    if (m->arch->qk_after_rope) norm_q_and_k(b, q, k);
    batch_temper(b, q, q_rows);
    batch_attend(b, &(attention_heads){.q = q,
                                       .k = k,
                                       .v = v,
                                       .o = o,
                                       .heads = l->heads,
                                       .kv_heads = l->kv_heads,
                                       .head = m->head,
                                       .value = m->head,
                                       .k_step = m->head,
                                       .v_step = m->head,
                                       .sinks = b->layer->values[SINKS]});
    if (!batch_site(b, o, s, q_rows, b->tokens, 0, (slot[]){O, SLOTS})) return false;
    batch_multiply(b, O, 0, o, s, b->part, s, b->tokens);
    return true;
}
