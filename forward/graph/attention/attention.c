/* Attention: heads, windows and the layers that use rope, read from the metadata, and the computation that
 * all attention mixers share. batch_attend cuts the work into blocks of QUERIES queries of one head in one
 * window. For a block the scores of all keys that any of its queries sees are computed as [key][query],
 * softmax masks the keys that a query must not see, and the values are mixed with the result. A block belongs
 * to one thread, which has scores of its own, so results do not depend on the number of threads. */
#include "forward/graph/attention/attention.h"

#include <math.h>
#include <string.h>

/* ---- keys and tensors ---- */

void attention_choose_layers(const forward_model *m, key_reader *r, bool *is_own) {
    key_list kv = key_list_of(r, "attention.head_count_kv");
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = key_number_at(r, &kv, i, 1, 0, MODEL_MOST) > 0;
}

void attention_read_heads(forward_model *m, key_reader *r, model_sublayer *p) {
    attention_numbers *n = p->numbers;
    key_list heads = key_list_needed(r, "attention.head_count"),
             kv = key_list_of(r, "attention.head_count_kv");
    size_t first = 0; /* of the first layer that has any */
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->heads = key_number_at(r, &heads, i, 1, 1, MODEL_MOST);
        l->kv_heads = key_number_at(r, &kv, i, l->heads, 1, l->heads);
        if (!first) first = l->heads;
    }
    if (!first) first = key_number_at(r, &heads, 0, 1, 0, MODEL_MOST); /* no layer has attention */
    n->even_head = m->sizes.width / (first ? first : 1);
    uint64_t absent = n->even_head;
    if (m->arch->graph.rotated_head) absent = key_number(r, "rope.dimension_count", absent, 1, MODEL_MOST);
    n->head = key_number(r, "attention.key_length", absent, 1, MODEL_MOST);
    n->value = key_number(r, "attention.value_length", absent, 1, MODEL_MOST);
    n->local_head = n->head, n->local_value = n->value;
    if (m->arch->graph.local_sizes) {
        n->local_head = key_number_needed(r, "attention.key_length_swa", 1, MODEL_MOST);
        n->local_value = key_number_needed(r, "attention.value_length_swa", 1, MODEL_MOST);
    }
    n->output_scale = 1;
}

void attention_share_sizes(forward_model *m, model_sublayer *p) {
    const attention_numbers *n = p->numbers;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->head = l->is_local ? n->local_head : n->head;
        l->value = l->is_local ? n->local_value : n->value;
    }
}

void attention_check_heads(key_reader *r, const model_sublayer *p, size_t least) {
    const attention_numbers *n = p->numbers;
    if (n->head < least || n->value == 0)
        key_fail(r, "attention.head_count", "is more than embedding_length");
}

void attention_read_windows(forward_model *m, key_reader *r, model_sublayer *p) {
    attention_numbers *n = p->numbers;
    const arch_graph *a = &m->arch->graph;
    size_t layers = m->sizes.layers;
    key_list pattern = key_list_of(r, "attention.sliding_window_pattern");
    const char *key = "attention.sliding_window";
    if (a->window == WINDOW_REQUIRED) {
        n->window = key_number_needed(r, key, 0, MODEL_MOST);
    } else if (a->window == WINDOW_OPTIONAL) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
    } else if (a->window == WINDOW_BY_NUMBER && arch_is_by_number(m->arch, BY_NUMBER_WINDOWS, layers)) {
        n->window = key_number(r, key, a->window_default, 0, MODEL_MOST);
        if (!n->window) n->window = a->window_default;
    } else if (a->window == WINDOW_IF_ANY) {
        n->window = key_number(r, key, 0, 0, MODEL_MOST) ? a->window_default : 0;
    } else if (a->window == WINDOW_CHUNKS) {
        n->window = a->window_default, n->has_chunks = true;
    }
    uint64_t count;
    bool list = key_list_counts(&pattern, &count);
    if (n->window && a->pattern_list && !list)
        key_fail(r, pattern.name, "is missing or not an array, expected one value per layer");
    for (size_t i = 0; n->window && i < layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        uint64_t period = key_number_at(r, &pattern, i, a->period_default, 0, list ? 1 : MODEL_MOST);
        uint64_t at = period ? i % period : 0;
        bool has_period = !m->mtp_of; /* MTP layers see all tokens, unless a list says otherwise */
        if (l)
            l->is_local =
                list ? period != 0 : has_period && (!period || (a->first_global ? at != 0 : at < period - 1));
    }
}

/* Facts that decide which layers use rope. */
typedef struct rope_layers {
    no_rope rule;
    size_t layers, dense; /* dense: leading_dense_block_count */
    bool has_windows, is_finetuned;
} rope_layers;

/* in_pattern: the layer's value of attention.rope_pattern. */
static bool layer_has_rope(const rope_layers *of, size_t i, bool is_local, bool in_pattern) {
    const bool by_rule[] = {
        [ROPE_ALWAYS] = true,
        [ROPE_NEVER] = false,
        [ROPE_NOT_FOURTH] = (i + 1) % 4 != 0,
        [ROPE_IF_FINETUNED] = of->is_finetuned,
        [ROPE_LOCAL] = is_local,
        [ROPE_LOCAL_IF_ANY] = is_local || !of->has_windows,
        [ROPE_LOCAL_OR_DENSE] = is_local || i < of->dense,
        [ROPE_BY_PATTERN] = in_pattern,
        [ROPE_NOT_FIRST] = !of->has_windows || of->layers == 4 || i % 4 != 0,
    };
    return by_rule[of->rule];
}

void attention_choose_rope(forward_model *m, key_reader *r, model_sublayer *p) {
    const attention_numbers *n = p->numbers;
    rope_layers of = {.rule = m->arch->graph.no_rope, .layers = m->sizes.layers, .has_windows = n->window};
    key_list pattern = key_list_of(r, "attention.rope_pattern");
    if (of.rule == ROPE_IF_FINETUNED) of.is_finetuned = key_bool(r, "rope.scaling.finetuned", true);
    if (of.rule == ROPE_LOCAL_OR_DENSE)
        of.dense = key_number(r, "leading_dense_block_count", 0, 0, MODEL_MOST);
    for (size_t i = 0; i < m->sizes.layers; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        bool in_pattern = true;
        if (of.rule == ROPE_BY_PATTERN) in_pattern = key_number_at(r, &pattern, i, 1, 0, 1);
        if (!l) continue;
        l->has_rope = layer_has_rope(&of, i, l->is_local, in_pattern);
        l->is_tempered = !n->has_chunks || !l->has_rope;
    }
}

void attention_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    attention_numbers *n = p->numbers;
    rope_find_tensors(&n->rope, f);
}

/* ---- running ---- */

void attention_take_scratch(forward_batch *b, const model_sublayer *p, scratch *s, size_t scores_each) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    rope_lay_out(&n->rope, &own->rope, b->context, s);
    own->scores_each = scores_each;
    own->scores = scratch_take(s, scores_each, s->threads, sizeof(float));
    relative_lay_out(b, p, s);
}

bool attention_prepare(forward_batch *b, const model_sublayer *p, gq_error *e) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    relative_prepare(b, p);
    return rope_fill_tables(&n->rope, &own->rope, b->model, b->context, e);
}

query_block query_block_of(const forward_batch *b, size_t place) {
    size_t blocks = ceil_div(b->context, QUERIES), window = place / blocks, token = place % blocks * QUERIES;
    batch_span text = batch_span_at(b, window, token);
    size_t first = window * b->context + token - text.first;
    return (query_block){text.first, first, min(QUERIES, text.tokens - first)};
}

void query_block_multiply(const forward_batch *b, const query_block *of, int thread, const float *q,
                          const float *k, size_t k_stride, size_t head, size_t n, float *to) {
    matmul_within(b->products, thread,
                  &(matmul_product){.w = k,
                                    .x = q + of->begin + of->first,
                                    .y = to,
                                    .w_stride = k_stride,
                                    .x_stride = b->stride,
                                    .y_stride = QUERIES,
                                    .rows = n,
                                    .columns = head,
                                    .tokens = of->queries,
                                    .transposed = true});
}

void query_block_mix(const forward_batch *b, const query_block *of, int thread, const float *values,
                     size_t rows, size_t n, const float *weights, float *y, size_t y_stride) {
    matmul_within(b->products, thread,
                  &(matmul_product){.w = values,
                                    .x = weights,
                                    .y = y,
                                    .w_stride = b->stride,
                                    .x_stride = QUERIES,
                                    .y_stride = y_stride,
                                    .rows = rows,
                                    .columns = n,
                                    .tokens = of->queries});
}

/* The ALiBi slope of a head (Press et al. 2021, arXiv:2108.12409): a falling series of powers of two; heads
 * beyond a power of two of them have slopes between the first ones'. */
static float slope_of(const attention_numbers *n, size_t head, size_t heads) {
    size_t power = 1;
    while (2 * power <= heads) power *= 2;
    double step = (double)n->alibi / (double)power;
    if (n->alibi == 0) return 0;
    return (float)exp2(head < power ? -step * (double)(head + 1)
                                    : -step / 2 * (double)(2 * (head - power) + 1));
}

/* Scores of keys that a query does not attend to become -infinity. */
static void drop_others(float *scores, const uint64_t *chosen, size_t keys, size_t queries) {
    for (size_t j = 0; j < keys; j++)
        for (size_t i = 0; i < queries; i++)
            if (!(chosen[j] >> i & 1)) scores[j * QUERIES + i] = -INFINITY;
}

attention_block attention_score(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                                size_t window, size_t head, size_t first, int thread) {
    const attention_numbers *numbers = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    const attention_scratch *own = batch_own(b, p->sublayer);
    query_block of = query_block_of(b, window * ceil_div(b->context, QUERIES) + first / QUERIES);
    batch_span text = batch_span_at(b, window, first);
    size_t limit = 0, ahead = 0;
    first = of.first;
    if (l->is_local && numbers->window < text.tokens) limit = numbers->window;
    if (l->both_ways) {
        ahead = l->is_local && numbers->window / 2 < text.tokens ? numbers->window / 2 : b->context;
        limit = ahead < b->context ? ahead + 1 : 0;
    }
    size_t key = limit && first >= limit ? first - limit + 1 : 0;
    /* A chunk is a whole number of blocks of queries. */
    if (limit && numbers->has_chunks) key = first / limit * limit, limit = 0;
    size_t behind = first + of.queries + ahead, s = b->stride,
           end = l->both_ways && !limit ? text.length : text.tokens,
           keys = (behind < end ? behind : end) - key;
    size_t kv = head * h->kv_heads / h->heads;
    size_t rotation_stride = own->rope.rotation_stride;
    float *scores = own->scores + (size_t)thread * own->scores_each;
    const float *k = h->k + kv * h->k_head_stride * s + of.begin + key;
    size_t k_stride = s;
    if (h->tail) {
        float *both = scores + QUERIES * rotation_stride;
        for (size_t c = 0; c < h->head; c++) {
            const float *from = c < h->head - h->tail
                                    ? k + c * s
                                    : h->k_tail + (c - (h->head - h->tail)) * s + of.begin + key;
            memcpy(both + c * rotation_stride, from, keys * sizeof *both);
        }
        k = both, k_stride = rotation_stride;
    }
    query_block_multiply(b, &of, thread, h->q + head * (h->q_head_stride ? h->q_head_stride : h->head) * s, k,
                         k_stride, h->head, keys, scores);
    return (attention_block){scores, window, head, of, key, keys, limit, ahead};
}

void attention_weigh(forward_batch *b, const sublayer_spec *p, const attention_heads *h,
                     const attention_block *s) {
    const attention_numbers *numbers = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    if (h->chosen)
        drop_others(s->scores,
                    h->chosen + s->head * h->kv_heads / h->heads * h->chosen_stride +
                        (s->window * ceil_div(b->context, QUERIES) +
                         (s->of.begin - s->window * b->context + s->of.first) / QUERIES) *
                            b->context +
                        s->key,
                    s->keys, s->of.queries);
    relative_add(b, p, h, s);
    b->model->elements->softmax(
        &(softmax_task){.s = s->scores,
                        .stride = QUERIES,
                        .rows = s->keys,
                        .n = s->of.queries,
                        .scale = l->score_scale != 0 ? l->score_scale : numbers->score_scale,
                        .cap = numbers->score_cap,
                        .slope = slope_of(numbers, s->head, h->heads),
                        .masks = s->ahead < b->context,
                        .key = s->key,
                        .query = s->of.first,
                        .ahead = s->ahead,
                        .window = s->limit,
                        .sink = h->sinks ? h->sinks + s->head : NULL});
}

/* Attends for the queries first, first + 1, ... of one head in one window: the scores of all keys that they
 * see, softmax, mixed values. */
static void attend_queries(forward_batch *b, const sublayer_spec *p, const attention_heads *h, size_t window,
                           size_t head, size_t first, int thread) {
    attention_block block = attention_score(b, p, h, window, head, first, thread);
    size_t kv = head * h->kv_heads / h->heads, s = b->stride;
    attention_weigh(b, p, h, &block);
    query_block_mix(b, &block.of, thread, h->v + kv * h->v_head_stride * s + block.of.begin + block.key,
                    h->value, block.keys, block.scores,
                    h->o + head * h->value * s + block.of.begin + block.of.first, s);
}

typedef struct attended {
    forward_batch *b;
    const sublayer_spec *p;
    const attention_heads *h;
    size_t blocks; /* of queries of a head in a window */
} attended;

static void attend_block(void *data, size_t i, int thread) {
    const attended *a = data;
    size_t of_window = a->h->heads * a->blocks;
    attend_queries(a->b, a->p, a->h, i / of_window, i % of_window / a->blocks, i % a->blocks * QUERIES,
                   thread);
}

void batch_attend(forward_batch *b, const sublayer_spec *p, const attention_heads *h) {
    attended a = {b, p, h, ceil_div(b->context, QUERIES)};
    threads_for(b->pool, b->windows * h->heads * a.blocks, 1, attend_block, &a);
}

bool attention_make_low_queries(forward_batch *b, size_t rank, const float *x, size_t stride, float *low,
                                float *q) {
    static const weight_slot readers[] = {WEIGHT_ATTN_Q_B, WEIGHT_INDEXER_Q_B, WEIGHT_SLOTS};
    size_t s = b->stride;
    batch_multiply(b, WEIGHT_ATTN_Q_A, 0, x, stride, low, s, b->tokens);
    batch_norm_slot(b, WEIGHT_ATTN_Q_A_NORM, low, s, rank, low, s);
    if (!batch_report_inputs(b, low, s, readers)) return false;
    batch_multiply(b, WEIGHT_ATTN_Q_B, 0, low, s, q, s, b->tokens);
    return true;
}

static void attention_open_row(void *data, size_t r, int) {
    const attention_gates *g = data;
    g->open(g->gates + (r / g->each * g->stride + r % g->each) * g->b->stride, g->b->tokens);
}

static void attention_gate_row(void *data, size_t r, int) {
    const attention_gates *g = data;
    size_t s = g->b->stride, own = g->each == 1 ? 0 : r % g->value;
    g->b->model->elements->multiply(g->o + r * s, g->gates + (r / g->value * g->stride + own) * s,
                                    g->b->tokens);
}

void attention_gate(const attention_gates *g) {
    threads_for(g->b->pool, g->heads * g->each, THREADS_EVEN, attention_open_row, (void *)g);
    threads_for(g->b->pool, g->heads * g->value, THREADS_EVEN, attention_gate_row, (void *)g);
}

bool batch_scores(forward_batch *b, const sublayer_spec *p, const attention_heads *h) {
    forward_scores s = {b, p, h};
    if (!b->observer || !b->observer->on_scores) return true;
    b->answer = b->observer->on_scores(b->observer->data, &s, b->e);
    return b->answer == FORWARD_ON || b->answer == FORWARD_SKIP;
}
