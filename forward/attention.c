/* The mixer with keys and values per head, and batch_attend, attention proper, which latent.c uses as well. A
 * layer makes q, k and v of what flows in, normalises and rotates q and k, attends, and multiplies with
 * attn_output. batch_attend cuts the work into blocks of QUERIES queries of one head in one window. For a
 * block the scores of all keys that any of its queries sees are computed as [key][query], softmax masks the
 * keys that a query must not see, and the values are mixed with the result. A block belongs to one thread,
 * which has scores of its own, so results do not depend on the number of threads. Keys, windows and rope are
 * read in attention_keys.c.
 */
#include "forward/attention.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "forward/layer_part.h"

void attention_take_scratch(forward_batch *b, const model_part *p, scratch *s, size_t scores_each) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    rope_lay_out(&n->rope, &own->rope, b->context, s);
    own->scores_each = scores_each;
    own->scores = scratch_take(s, scores_each, s->threads, sizeof(float));
}

bool attention_prepare(forward_batch *b, const model_part *p, gq_error *e) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    return rope_fill_tables(&n->rope, &own->rope, b->model, b->context, e);
}

/* Attends for the queries first, first + 1, ... of one head in one window: the scores of all keys that they
 * see, softmax, mixed values. */
static void attend_queries(forward_batch *b, const plan_part *p, const attention_heads *h, size_t window,
                           size_t head, size_t first, int thread) {
    const forward_model *m = b->model;
    const attention_numbers *numbers = p->part->numbers;
    const attention_layer *l = p->numbers;
    const attention_scratch *own = batch_own(b, p->part);
    size_t n = b->context - first < QUERIES ? b->context - first : QUERIES;
    size_t limit = l->is_local && numbers->window < b->context ? numbers->window : 0;
    size_t key = limit && first >= limit ? first - limit + 1 : 0, keys = first + n - key;
    size_t kv = head * h->kv_heads / h->heads, begin = window * b->context, s = b->stride;
    size_t turn_stride = own->rope.turn_stride;
    float *scores = own->scores + (size_t)thread * own->scores_each;
    const float *k = h->k + kv * h->k_step * s + begin + key;
    size_t k_stride = s;
    if (h->tail) {
        float *both = scores + QUERIES * turn_stride;
        for (size_t c = 0; c < h->head; c++) {
            const float *from =
                c < h->head - h->tail ? k + c * s : h->k_tail + (c - (h->head - h->tail)) * s + begin + key;
            memcpy(both + c * turn_stride, from, keys * sizeof *both);
        }
        k = both, k_stride = turn_stride;
    }
    matmul_within(b->products, thread,
                  &(matmul_product){.w = k,
                                    .x = h->q + head * (h->q_step ? h->q_step : h->head) * s + begin + first,
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
                                         .scale = numbers->score_scale,
                                         .cap = numbers->score_cap,
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
    forward_batch *b;
    const plan_part *p;
    const attention_heads *h;
    size_t blocks; /* of queries of a head in a window */
} attended;

static void attend_block(void *data, size_t i, int thread) {
    const attended *a = data;
    size_t of_window = a->h->heads * a->blocks;
    attend_queries(a->b, a->p, a->h, i / of_window, i % of_window / a->blocks, i % a->blocks * QUERIES,
                   thread);
}

void batch_attend(forward_batch *b, const plan_part *p, const attention_heads *h) {
    attended a = {b, p, h, parts(b->context, QUERIES)};
    threads_for(b->pool, b->windows * h->heads * a.blocks, 1, attend_block, &a);
}

/* ---- the mixer with keys and values per head ---- */

static void attention_read_keys(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    attention_read_heads(m, r, p);
    if (!m->arch->free_head && n->head != n->even_head)
        key_fail(r, "attention.key_length", "is %zu, expected embedding_length / attention.head_count: %zu",
                 n->head, n->even_head);
    if (n->value != n->head)
        key_fail(r, "attention.value_length", "is %zu, expected attention.key_length: %zu", n->value,
                 n->head);
    attention_check_heads(r, p, 1);
    attention_read_windows(m, r, p);
    if (!r->ok) return;
    rope_read_keys(&n->rope, m, r, n->head, false);
    n->score_scale = (float)(1 / sqrt((double)n->head));
    attention_choose_rope(m, r, p);
}

/* Rows of q that a head has in attn_q. */
static size_t attention_q_step(const forward_model *m, const attention_numbers *n) {
    return m->arch->gate_in_q ? 2 * n->head : n->head;
}

static void attention_find_qk_norms(tensor_finder *f, const plan_part *p) {
    const architecture *a = f->m->arch;
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    presence is = a->qk == QK_NONE ? ABSENT : a->has[WEIGHT_ATTN_Q_NORM] == OPTIONAL ? OPTIONAL : REQUIRED;
    uint64_t heads[] = {l->heads, l->kv_heads};
    static const weight_slot slots[] = {WEIGHT_ATTN_Q_NORM, WEIGHT_ATTN_K_NORM};
    for (int i = 0; i < 2; i++) {
        tensor_shape of = a->qk == QK_FULL   ? SHAPE(heads[i] * n->head)
                          : a->qk == QK_EACH ? SHAPE(n->head, heads[i])
                                             : SHAPE(n->head);
        tensors_take_weight(f, slots[i], is, of);
        if (is != ABSENT) is = f->l->weight[WEIGHT_ATTN_Q_NORM] ? REQUIRED : ABSENT; /* both or none */
    }
}

static void attention_find_tensors(tensor_finder *f, const plan_part *p) {
    const architecture *a = f->m->arch;
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width, q = l->heads * n->head, k = l->kv_heads * n->head;
    if (a->has[WEIGHT_ATTN_QKV] == REQUIRED ||
        (!a->gate_in_q && tensors_layer_has(f->m, f->index, WEIGHT_ATTN_QKV))) {
        tensors_take_biased(f, WEIGHT_ATTN_QKV, REQUIRED, SHAPE(d, q + 2 * k), a->qkv_bias);
    } else {
        uint64_t q_and_gate = (uint64_t)l->heads * attention_q_step(f->m, n);
        tensors_take_biased(f, WEIGHT_ATTN_Q, REQUIRED, SHAPE(d, q_and_gate), a->qkv_bias);
        tensors_take_biased(f, WEIGHT_ATTN_K, REQUIRED, SHAPE(d, k), a->qkv_bias);
        tensors_take_biased(f, WEIGHT_ATTN_V, REQUIRED, SHAPE(d, k), a->qkv_bias);
    }
    attention_find_qk_norms(f, p);
    tensors_take_weight(f, WEIGHT_ATTN_SINKS, a->has[WEIGHT_ATTN_SINKS], SHAPE(l->heads));
    tensors_take_biased(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(q, d), a->output_bias);
}

/* Rows of `work`: q, with its gates, k, v and what the heads give. */
static uint64_t attention_count_rows(const forward_model *m, const layer_plan *l, const plan_part *p) {
    const attention_numbers *n = p->part->numbers;
    const attention_layer *own = p->numbers;
    (void)l;
    return own->heads * (attention_q_step(m, n) + n->head) + 2 * own->kv_heads * n->head;
}

static void attention_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    attention_take_scratch(b, p, s, forward_stride(b->context) * QUERIES);
}

static void attention_norm_q_and_k(forward_batch *b, const plan_part *p, float *q, float *k) {
    const forward_model *m = b->model;
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    static const weight_slot slots[] = {WEIGHT_ATTN_Q_NORM, WEIGHT_ATTN_K_NORM};
    float *x[] = {q, k};
    size_t heads[] = {l->heads, l->kv_heads};
    bool full = m->arch->qk == QK_FULL;
    for (int i = 0; i < 2 && b->layer->plan->weight[WEIGHT_ATTN_Q_NORM]; i++)
        batch_norm(b, &(norm_groups){.x = x[i],
                                     .y = x[i],
                                     .weight = b->layer->values[slots[i]],
                                     .x_stride = b->stride,
                                     .y_stride = b->stride,
                                     .features = full ? heads[i] * n->head : n->head,
                                     .groups = full ? 1 : heads[i],
                                     .group_step = i == 0 && !full ? attention_q_step(m, n) : 0,
                                     .weight_step = m->arch->qk == QK_EACH ? n->head : 0});
}

typedef struct gated_heads {
    const forward_batch *b;
    float *o, *gates;
    size_t head;
} gated_heads;

static void gate_head_row(void *data, size_t r, int thread) {
    const gated_heads *g = data;
    size_t s = g->b->stride, tokens = g->b->tokens;
    float *gate = g->gates + (r / g->head * 2 * g->head + r % g->head) * s;
    (void)thread;
    g->b->model->elements->sigmoid(gate, tokens);
    g->b->model->elements->multiply(g->o + r * s, gate, tokens);
}

/* Rows of what the heads give times the sigmoid of their gates, which follow each head's q. */
static void attention_gate_heads(forward_batch *b, const attention_numbers *n, size_t heads, float *q,
                                 float *o) {
    threads_for(b->pool, heads * n->head, THREADS_EVEN, gate_head_row,
                &(gated_heads){b, o, q + n->head * b->stride, n->head});
}

static bool attention_run(forward_batch *b, const plan_part *p, const float *x, size_t stride) {
    const forward_model *m = b->model;
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    size_t s = b->stride, q_rows = l->heads * n->head, k_rows = l->kv_heads * n->head, width = m->sizes.width;
    size_t q_step = attention_q_step(m, n);
    float *q = b->work, *k = q + l->heads * q_step * s, *v = k + k_rows * s, *o = v + k_rows * s;
    if (!batch_site(
            b, x, stride, width, b->tokens, 0,
            (weight_slot[]){WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V, WEIGHT_ATTN_QKV, WEIGHT_SLOTS}))
        return false;
    if (b->layer->plan->weight[WEIGHT_ATTN_QKV]) {
        batch_multiply(b, WEIGHT_ATTN_QKV, 0, x, stride, q, s, b->tokens);
    } else {
        batch_multiply(b, WEIGHT_ATTN_Q, 0, x, stride, q, s, b->tokens);
        batch_multiply(b, WEIGHT_ATTN_K, 0, x, stride, k, s, b->tokens);
        batch_multiply(b, WEIGHT_ATTN_V, 0, x, stride, v, s, b->tokens);
    }
    if (!m->arch->qk_after_rope) attention_norm_q_and_k(b, p, q, k);
    if (l->has_rope) batch_rope(b, p, q, l->heads, q_step), batch_rope(b, p, k, l->kv_heads, n->head);
    if (m->arch->qk_after_rope) attention_norm_q_and_k(b, p, q, k);
    batch_temper(b, p, q, l->heads * q_step);
    batch_attend(b, p,
                 &(attention_heads){.q = q,
                                    .k = k,
                                    .v = v,
                                    .o = o,
                                    .heads = l->heads,
                                    .kv_heads = l->kv_heads,
                                    .head = n->head,
                                    .value = n->head,
                                    .q_step = q_step,
                                    .k_step = n->head,
                                    .v_step = n->head,
                                    .sinks = b->layer->values[WEIGHT_ATTN_SINKS]});
    if (m->arch->gate_in_q) attention_gate_heads(b, n, l->heads, q, o);
    if (!batch_site(b, o, s, q_rows, b->tokens, 0, (weight_slot[]){WEIGHT_ATTN_OUTPUT, WEIGHT_SLOTS}))
        return false;
    batch_multiply(b, WEIGHT_ATTN_OUTPUT, 0, o, s, b->part, s, b->tokens);
    return true;
}

const layer_part mixer_attention = {
    .model_bytes = sizeof(attention_numbers),
    .layer_bytes = sizeof(attention_layer),
    .choose_layers = attention_choose_layers,
    .read_keys = attention_read_keys,
    .find_model_tensors = attention_find_model_tensors,
    .find_tensors = attention_find_tensors,
    .scratch_rows = attention_count_rows,
    .lay_out = attention_lay_out,
    .prepare = attention_prepare,
    .run = attention_run,
};
