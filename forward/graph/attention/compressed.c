/* Attention to near keys and to compressed ones. All heads share one key per token, which is the value as
 * well. A token sees those of the last `window` tokens and, in layers with a compressor, one for each whole
 * block of `ratio` tokens before it. A block's key is a sum of what its tokens give, channel by channel, by a
 * softmax of their scores:
 *
 *     key[c] = sum over t of softmax(gate x_t + ape[t mod ratio])[c] (kv x_t)[c], normalized and rotated by rope
 *
 * With ratio 4 blocks overlap: attn_compressor_kv and _gate have two halves of rows, and a block sums up the
 * first half of the tokens of the block before it, and the second half of its own. There an indexer, whose
 * keys are made in the same way, chooses the blocks that a token attends to (indexer.h). What the heads give
 * is rotated back by their token's position and goes through attn_output_a in groups of heads, each with rows
 * of its own, and then through attn_output_b.
 *
 * The inputs of attn_output_a are those of one matrix: of each token those of one group are reported, by
 * rotates. `work` holds in this order q, what the heads give, the low-rank queries, the keys, compressed keys,
 * and the rest: what compressors and the indexer need, and then what groups give. */
#include <math.h>
#include <string.h>

#include "forward/graph/attention/indexer.h"

enum { RATIO_OVERLAPPING = 4, RATIO_APART = 128 };

typedef struct compressed_numbers {
    attention_numbers attention; /* first */
    indexer_numbers indexer;
    size_t groups, rank; /* of heads; rows of attn_output_a of each */
} compressed_numbers;

typedef struct compressed_layer {
    attention_layer attention; /* first; local: without a compressor, and with a rope of its own */
    size_t q_rank;             /* rows of attn_q_a */
    size_t ratio;              /* tokens of a block; 0: there are none */
} compressed_layer;

typedef struct compressed_scratch {
    attention_scratch attention; /* first */
    uint64_t *chosen;            /* [threads][blocks], as indexer_scratch has it */
    float *sorted;               /* [threads][blocks] */
    size_t blocks;               /* of a window, at most */
} compressed_scratch;

/* A compressor's tensors. */
typedef struct compressor {
    weight_slot kv, gate, ape, norm;
} compressor;
static const compressor of_layer = {WEIGHT_COMPRESSOR_KV, WEIGHT_COMPRESSOR_GATE, WEIGHT_COMPRESSOR_APE,
                                    WEIGHT_COMPRESSOR_NORM};
static const compressor of_indexer = {WEIGHT_INDEXER_COMPRESSOR_KV, WEIGHT_INDEXER_COMPRESSOR_GATE,
                                      WEIGHT_INDEXER_COMPRESSOR_APE, WEIGHT_INDEXER_COMPRESSOR_NORM};

/* Halves of rows that a compressor's matrices have. */
static size_t compressed_halves(size_t ratio) { return ratio == RATIO_OVERLAPPING ? 2 : 1; }

/* ---- keys and tensors ---- */

static void compressed_read_ratios(forward_model *m, key_reader *r, model_sublayer *p) {
    key_list ratios = key_list_needed(r, "attention.compress_ratios");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        compressed_layer *l = model_layer_numbers(m, p, i);
        if (!l) continue;
        l->ratio = key_number_at(r, &ratios, i, 0, 0, MODEL_MOST);
        l->attention.is_local = !l->ratio, l->attention.has_rope = true;
        if (l->ratio && l->ratio != RATIO_OVERLAPPING && l->ratio != RATIO_APART)
            key_fail(r, ratios.name, "is %zu for layer %zu, expected 0, %d or %d", l->ratio, i,
                     RATIO_OVERLAPPING, RATIO_APART);
        if (l->ratio && m->mtp_of)
            key_fail(r, ratios.name, "is %zu for MTP layer %zu, expected 0", l->ratio, i);
    }
}

/* Layers without a compressor have the base alone; the others a base of their own and yarn, which leaves the
 * magnitude as it is. */
static void compressed_read_rope(compressed_numbers *n, const forward_model *m, key_reader *r) {
    rope_numbers *rope = &n->attention.rope;
    rope_read_keys(rope, m, r, n->attention.head, n->attention.head, false);
    rope->beta_fast = key_float(r, "rope.scaling.yarn_beta_fast", rope->beta_fast, 1e-3, 1e6);
    rope->beta_slow = key_float(r, "rope.scaling.yarn_beta_slow", rope->beta_slow, 1e-3, 1e6);
    rope->angles[0].magnitude = 1, rope->angles[1] = rope->angles[0];
    rope->angles[1].scale = 1, rope->angles[1].yarn = false;
    rope->angles[0].base = key_float_needed(r, "attention.compress_rope_freq_base", 1, 1e30);
}

static void compressed_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    compressed_numbers *n = p->numbers;
    attention_numbers *a = &n->attention;
    attention_read_heads(m, r, p);
    attention_check_heads(r, p, 2);
    if (a->value != a->head)
        key_fail(r, "attention.value_length", "is %zu, expected attention.key_length: %zu", a->value,
                 a->head);
    a->window = key_number_needed(r, "attention.sliding_window", 1, MODEL_MOST);
    compressed_read_ratios(m, r, p);
    attention_share_sizes(m, p);
    if (r->ok) compressed_read_rope(n, m, r);
    a->score_scale = (float)(1 / sqrt((double)a->head));
    indexer_read_sizes(r, &n->indexer.heads, &n->indexer.head, &n->indexer.top);
    n->groups = key_number_needed(r, "attention.output_group_count", 1, MODEL_MOST);
    n->rank = key_number_needed(r, "attention.output_lora_rank", 1, MODEL_MOST);
    indexer_check_head(&n->indexer, r, a->rope.angles[0].rotated);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        const attention_layer *l = model_layer_numbers(m, p, i);
        if (l && (l->heads % n->groups != 0 || l->kv_heads != 1))
            key_fail(r, "attention.head_count", "is %zu with %zu for keys, expected groups of %zu, and 1",
                     l->heads, l->kv_heads, n->groups);
    }
}

static void compressor_find(tensor_finder *f, const compressor *c, uint64_t head, size_t ratio) {
    uint64_t d = f->m->sizes.width, rows = head * compressed_halves(ratio);
    tensors_take_weight(f, c->kv, REQUIRED, SHAPE(d, rows));
    tensors_take_weight(f, c->gate, REQUIRED, SHAPE(d, rows));
    tensors_take_weight(f, c->ape, REQUIRED, SHAPE(rows, ratio));
    tensors_take_weight(f, c->norm, REQUIRED, SHAPE(head));
}

static void compressed_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const compressed_numbers *n = p->sublayer->numbers;
    compressed_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    uint64_t d = f->m->sizes.width, all = a->heads * a->head;
    l->q_rank = tensors_rows(f, WEIGHT_ATTN_Q_A);
    tensors_take_weight(f, WEIGHT_ATTN_SINKS, REQUIRED, SHAPE(a->heads));
    tensors_take_weight(f, WEIGHT_ATTN_Q_A, REQUIRED, SHAPE(d, l->q_rank));
    tensors_take_weight(f, WEIGHT_ATTN_Q_A_NORM, REQUIRED, SHAPE(l->q_rank));
    tensors_take_weight(f, WEIGHT_ATTN_Q_B, REQUIRED, SHAPE(l->q_rank, all));
    tensors_take_weight(f, WEIGHT_ATTN_KV, REQUIRED, SHAPE(d, a->head));
    tensors_take_weight(f, WEIGHT_ATTN_KV_A_NORM, REQUIRED, SHAPE(a->head));
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT_A, REQUIRED, SHAPE(all / n->groups, n->rank * n->groups));
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT_B, REQUIRED, SHAPE(n->rank * n->groups, d));
    if (l->ratio) compressor_find(f, &of_layer, a->head, l->ratio);
    if (l->ratio != RATIO_OVERLAPPING) return;
    compressor_find(f, &of_indexer, n->indexer.head, l->ratio);
    tensors_take_weight(f, WEIGHT_INDEXER_PROJ, REQUIRED, SHAPE(d, n->indexer.heads));
    tensors_take_weight(f, WEIGHT_INDEXER_Q_B, REQUIRED,
                        SHAPE(l->q_rank, n->indexer.heads * n->indexer.head));
}

/* ---- memory ---- */

static uint64_t compressed_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const compressed_numbers *n = p->sublayer->numbers;
    const compressed_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    uint64_t head = max(a->head, n->indexer.head), values = (uint64_t)a->heads * a->head;
    /* The indexer's queries, weights and compressed keys, and what the compressors take. */
    uint64_t making = (uint64_t)n->indexer.heads * (n->indexer.head + 1) + n->indexer.head + 4 * head;
    uint64_t groups = values / n->groups + (uint64_t)n->groups * n->rank;
    return 2 * values + l->q_rank + 2 * a->head + max(making, groups);
}

/* Memory per thread: scores of QUERIES queries for all keys, and what compressed ones add to a head's values. */
static void compressed_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const compressed_numbers *n = p->numbers;
    compressed_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    own->blocks = b->context / RATIO_OVERLAPPING;
    size_t keys = b->context + 2 * own->blocks;
    attention_take_scratch(b, p, s, (keys + n->attention.head) * QUERIES);
    own->chosen = scratch_take(s, own->blocks, s->threads, sizeof *own->chosen);
    own->sorted = scratch_take(s, own->blocks, s->threads, sizeof *own->sorted);
}

/* ---- compressed keys ---- */

typedef struct compressing {
    forward_batch *b;
    const float *kv, *gate, *ape;
    float *keys;
    size_t head, ratio, blocks;
} compressing;

/* One channel of all blocks of a text; a block's key stands in the column of the text's token of its number. */
static void compress_text(const compressing *of, const batch_span *text, size_t c) {
    const forward_batch *b = of->b;
    size_t s = b->stride, rows = of->head * compressed_halves(of->ratio);
    bool overlaps = of->ratio == RATIO_OVERLAPPING;
    float score[RATIO_APART], value[RATIO_APART];
    for (size_t block = 0; block < text->tokens / of->ratio; block++) {
        size_t begin = text->first, n = 0;
        size_t first = block * of->ratio, end = first + of->ratio;
        for (size_t t = overlaps && block ? first - of->ratio : first; t < end; t++, n++) {
            size_t row = overlaps && t >= first ? c + of->head : c;
            score[n] = of->gate[row * s + begin + t] + of->ape[t % of->ratio * rows + row];
            value[n] = of->kv[row * s + begin + t];
        }
        of->keys[c * s + begin + block] = indexer_mean(b->model->elements, value, score, n);
    }
}

static void compress_row(void *data, size_t c, int) {
    const compressing *of = data;
    for (size_t i = 0; i < of->b->n_spans; i++) compress_text(of, &of->b->spans[i], c);
}

/* Makes a compressor's keys of the input; work: twice the rows of its matrices. */
static void compress(forward_batch *b, const sublayer_spec *p, const compressor *c, size_t head,
                     const float *x, size_t stride, float *keys, float *work) {
    const compressed_numbers *n = p->sublayer->numbers;
    const compressed_layer *l = p->numbers;
    size_t s = b->stride, plain = head - n->attention.rope.angles[0].rotated;
    float *gate = work + compressed_halves(l->ratio) * head * s;
    compressing of = {b, work, gate, b->layer->values[c->ape], keys, head, l->ratio, b->context / l->ratio};
    batch_multiply(b, c->kv, 0, x, stride, work, s, b->tokens);
    batch_multiply(b, c->gate, 0, x, stride, gate, s, b->tokens);
    threads_for(b->pool, head, THREADS_EVEN, compress_row, &of);
    batch_norm_slot(b, c->norm, keys, s, head, keys, s);
    batch_rope_columns(
        b, p, &(rope_columns){.x = keys + plain * s, .heads = 1, .step = l->ratio, .columns = of.blocks});
}

/* ---- attention ---- */

typedef struct compressed_run {
    forward_batch *b;
    const sublayer_spec *p;
    const float *q, *kv, *keys;              /* keys: the blocks' */
    const float *index_q, *weight, *index_k; /* NULL: nothing to choose */
    float *o;
} compressed_run;

/* QUERIES queries of one window. */
typedef struct compressed_span {
    query_block of;
    size_t key, keys, blocks; /* near keys, and blocks, that any of them sees */
    float *scores;
    const uint64_t *chosen; /* of the blocks; NULL: all */
    int thread;
} compressed_span;

static size_t blocks_seen(size_t query, size_t ratio) { return ratio ? (query + 1) / ratio : 0; }

/* Chooses blocks for the queries. */
static const uint64_t *span_choose(const compressed_run *r, const compressed_span *a) {
    forward_batch *b = r->b;
    const compressed_numbers *n = r->p->sublayer->numbers;
    const compressed_layer *l = r->p->numbers;
    const compressed_scratch *own = batch_own(b, r->p->sublayer);
    size_t s = b->stride;
    float *z = a->scores, *sum = z + a->blocks * QUERIES;
    uint64_t *chosen = own->chosen + (size_t)a->thread * own->blocks;
    if (!r->index_q || a->blocks <= n->indexer.top) return NULL;
    memset(sum, 0, a->blocks * QUERIES * sizeof *sum);
    memset(chosen, 0, a->blocks * sizeof *chosen);
    for (size_t h = 0; h < n->indexer.heads; h++) {
        query_block_multiply(b, &a->of, a->thread, r->index_q + h * n->indexer.head * s,
                             r->index_k + a->of.begin, s, n->indexer.head, a->blocks, z);
        indexer_add_head(z, r->weight + h * s + a->of.begin + a->of.first, sum, a->blocks, a->of.queries);
    }
    for (size_t q = 0; q < a->of.queries; q++)
        indexer_choose_keys(n->indexer.top, sum, q, blocks_seen(a->of.first + q, l->ratio), chosen,
                            own->sorted + (size_t)a->thread * own->blocks);
    return chosen;
}

/* Scores of keys that a query does not see become -infinity. */
static void span_mask(const compressed_run *r, const compressed_span *a) {
    const compressed_numbers *n = r->p->sublayer->numbers;
    const compressed_layer *l = r->p->numbers;
    for (size_t j = 0; j < a->keys; j++)
        for (size_t i = 0; i < a->of.queries; i++) {
            size_t query = a->of.first + i, key = a->key + j;
            if (key > query || query - key >= n->attention.window) a->scores[j * QUERIES + i] = -INFINITY;
        }
    for (size_t j = 0; j < a->blocks; j++)
        for (size_t i = 0; i < a->of.queries; i++)
            if (j >= blocks_seen(a->of.first + i, l->ratio) || (a->chosen && !(a->chosen[j] >> i & 1)))
                a->scores[(a->keys + j) * QUERIES + i] = -INFINITY;
}

/* Products of a head's queries with near keys, or with those of blocks behind them. */
static void span_score(const compressed_run *r, const compressed_span *a, size_t h, const float *keys,
                       size_t n, float *to) {
    const compressed_numbers *numbers = r->p->sublayer->numbers;
    size_t head = numbers->attention.head, s = r->b->stride;
    if (n) query_block_multiply(r->b, &a->of, a->thread, r->q + h * head * s, keys, s, head, n, to);
}

static void span_attend(const compressed_run *r, const compressed_span *a, size_t h) {
    forward_batch *b = r->b;
    const compressed_numbers *n = r->p->sublayer->numbers;
    size_t s = b->stride, head = n->attention.head, all = a->keys + a->blocks;
    const float *near = r->kv + a->of.begin + a->key, *blocks = r->keys + a->of.begin;
    float *behind = a->scores + a->keys * QUERIES, *more = a->scores + all * QUERIES;
    float *o = r->o + h * head * s + a->of.begin + a->of.first;
    span_score(r, a, h, near, a->keys, a->scores);
    span_score(r, a, h, blocks, a->blocks, behind);
    span_mask(r, a);
    b->model->elements->softmax(&(softmax_task){.s = a->scores,
                                                .stride = QUERIES,
                                                .rows = all,
                                                .n = a->of.queries,
                                                .scale = n->attention.score_scale,
                                                .sink = b->layer->values[WEIGHT_ATTN_SINKS] + h});
    query_block_mix(b, &a->of, a->thread, near, head, a->keys, a->scores, o, s);
    if (!a->blocks) return;
    query_block_mix(b, &a->of, a->thread, blocks, head, a->blocks, behind, more, QUERIES);
    for (size_t c = 0; c < head; c++)
        b->model->elements->add_scaled(o + c * s, more + c * QUERIES, 1, a->of.queries);
}

static void compressed_attend_span(void *data, size_t i, int thread) {
    const compressed_run *r = data;
    const forward_batch *b = r->b;
    const compressed_numbers *n = r->p->sublayer->numbers;
    const compressed_layer *l = r->p->numbers;
    const compressed_scratch *own = batch_own(r->b, r->p->sublayer);
    size_t window = n->attention.window;
    compressed_span a = {.of = query_block_of(b, i),
                         .scores = own->attention.scores + (size_t)thread * own->attention.scores_each,
                         .thread = thread};
    size_t end = a.of.first + a.of.queries;
    a.key = a.of.first >= window ? a.of.first - window + 1 : 0;
    a.keys = end - a.key, a.blocks = blocks_seen(end - 1, l->ratio);
    a.chosen = span_choose(r, &a);
    for (size_t h = 0; h < l->attention.heads; h++) span_attend(r, &a, h);
}

/* ---- the layer ---- */

static bool compressed_make_queries(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride,
                                    float *q, float *low) {
    const compressed_numbers *n = p->sublayer->numbers;
    const compressed_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    size_t s = b->stride, plain = a->head - n->attention.rope.angles[0].rotated;
    if (!attention_make_low_queries(b, l->q_rank, x, stride, low, q)) return false;
    batch_norm_groups(b, NULL, q, a->head, a->heads);
    batch_rope(b, p, q + plain * s, a->heads, a->head);
    return true;
}

/* Makes the indexer's queries, weights and keys; work: their rows, and those that a compressor needs. */
static void compressed_index(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride,
                             const float *low, float *work, compressed_run *r) {
    const compressed_numbers *n = p->sublayer->numbers;
    const indexer_numbers *i = &n->indexer;
    size_t s = b->stride, plain = i->head - n->attention.rope.angles[0].rotated;
    float *q = work, *weight = q + i->heads * i->head * s, *keys = weight + i->heads * s;
    batch_multiply(b, WEIGHT_INDEXER_Q_B, 0, low, s, q, s, b->tokens);
    batch_rope(b, p, q + plain * s, i->heads, i->head);
    batch_multiply(b, WEIGHT_INDEXER_PROJ, 0, x, stride, weight, s, b->tokens);
    batch_scale(b, weight, s, i->heads, 1 / sqrtf((float)(i->head * i->heads)));
    compress(b, p, &of_indexer, i->head, x, stride, keys, keys + i->head * s);
    r->index_q = q, r->weight = weight, r->index_k = keys;
}

/* Reports of each token what one group of heads gives, and multiplies all groups. */
static bool compressed_leave(forward_batch *b, const sublayer_spec *p, const float *o, float *work) {
    const compressed_numbers *n = p->sublayer->numbers;
    const compressed_layer *l = p->numbers;
    size_t s = b->stride, rows = l->attention.heads * l->attention.head / n->groups;
    float *sample = work, *given = sample + rows * s;
    for (size_t r = 0; r < rows; r++)
        for (size_t t = 0; t < b->tokens; t++)
            sample[r * s + t] = o[(t % b->context % n->groups * rows + r) * s + t];
    if (!batch_report_inputs(b, sample, s, (weight_slot[]){WEIGHT_ATTN_OUTPUT_A, WEIGHT_SLOTS})) return false;
    for (size_t g = 0; g < n->groups; g++)
        batch_multiply_some(b, WEIGHT_ATTN_OUTPUT_A, g * n->rank, o + g * rows * s, s,
                            &(batch_values){given + g * n->rank * s, n->rank, s, b->tokens});
    return batch_apply(b, WEIGHT_ATTN_OUTPUT_B, 0, given, s, b->output, s);
}

static bool compressed_run_layer(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const compressed_numbers *n = p->sublayer->numbers;
    const compressed_layer *l = p->numbers;
    const attention_layer *a = &l->attention;
    size_t s = b->stride, values = a->heads * a->head, plain = a->head - n->attention.rope.angles[0].rotated;
    float *q = b->work, *o = q + values * s, *low = o + values * s, *kv = low + l->q_rank * s,
          *keys = kv + a->head * s, *rest = keys + a->head * s;
    compressed_run r = {.b = b, .p = p, .q = q, .kv = kv, .keys = keys, .o = o};
    if (!batch_report_inputs(b, x, stride,
                             (weight_slot[]){WEIGHT_ATTN_Q_A, WEIGHT_ATTN_KV, WEIGHT_COMPRESSOR_KV,
                                             WEIGHT_COMPRESSOR_GATE, WEIGHT_INDEXER_COMPRESSOR_KV,
                                             WEIGHT_INDEXER_COMPRESSOR_GATE, WEIGHT_INDEXER_PROJ,
                                             WEIGHT_SLOTS}) ||
        !compressed_make_queries(b, p, x, stride, q, low))
        return false;
    batch_multiply(b, WEIGHT_ATTN_KV, 0, x, stride, kv, s, b->tokens);
    batch_norm_slot(b, WEIGHT_ATTN_KV_A_NORM, kv, s, a->head, kv, s);
    batch_rope(b, p, kv + plain * s, 1, 0);
    if (l->ratio && b->context >= l->ratio) compress(b, p, &of_layer, a->head, x, stride, keys, rest);
    if (l->ratio == RATIO_OVERLAPPING && b->context / l->ratio > n->indexer.top)
        compressed_index(b, p, x, stride, low, rest, &r);
    threads_for(b->pool, b->windows * ceil_div(b->context, QUERIES), 1, compressed_attend_span, &r);
    batch_rope_columns(b, p,
                       &(rope_columns){.x = o + plain * s,
                                       .heads = a->heads,
                                       .head = a->head,
                                       .step = 1,
                                       .columns = b->context,
                                       .back = true});
    return compressed_leave(b, p, o, rest);
}

const sublayer_kind mixer_compressed = {
    .model_bytes = sizeof(compressed_numbers),
    .layer_bytes = sizeof(compressed_layer),
    .read_keys = compressed_read_keys,
    .find_tensors = compressed_find_tensors,
    .scratch_rows = compressed_count_rows,
    .lay_out = compressed_lay_out,
    .prepare = attention_prepare,
    .run = compressed_run_layer,
};
