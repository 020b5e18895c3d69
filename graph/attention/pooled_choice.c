/* Sparse attention as qwen4exp has it. A whole block of keys has one key for the choice, the mean of what its tokens
 * give, normed and turned by the block's first position:
 *
 *     score[i][block] = sum over heads of max(0, query[i] . key[block])
 *
 * Token i attends to the tokens behind the last block that ends before it, itself among them, and to those of the
 * blocks with the largest scores, of equal ones the first, until it has top + keys - 1 of them, keys being a block's.
 * So the last block may be cut: then it attends to its first tokens, where llama.cpp takes those that its sort
 * happens to leave.
 */
#include "graph/attention/pooled_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/attention/indexer.h"
#include "graph/attention/rope.h"

void pooled_choice_read_keys(forward_model *m, key_reader *r, model_part *p) {
    block_numbers *c = &((attention_numbers *)p->numbers)->blocks;
    key_list ratios = key_list_of(r, "attention.compress_ratios");
    c->is_pooled = true;
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        size_t ratio = key_number_at(r, &ratios, i, 0, 0, MODEL_MOST);
        if (!l || !ratio) continue;
        l->chooses_blocks = true;
        if (c->keys && c->keys != ratio)
            key_fail(r, ratios.name, "is %zu for layer %zu, expected %zu as in the layers before", ratio, i,
                     c->keys);
        c->keys = ratio;
    }
    if (!c->keys) c->keys = 1; /* no layer chooses */
}

bool pooled_choice_is_needed(const forward_batch *b, const block_numbers *c) {
    return c->heads && b->context > c->top + c->keys - 1;
}

typedef struct pooled_run {
    forward_batch *b;
    const block_numbers *n;
    const attention_scratch *own;
    const float *q;
    float *k;
} pooled_run;

/* Puts the means of a row's whole blocks into the first columns of each text. */
static void pool_row(void *data, size_t row, int thread) {
    const pooled_run *r = data;
    const forward_batch *b = r->b;
    float share = 1 / (float)r->n->keys;
    (void)thread;
    for (size_t w = 0; w < b->n_spans; w++) {
        float *x = r->k + row * b->stride + b->spans[w].first;
        for (size_t i = 0; i < b->spans[w].tokens / r->n->keys; i++) {
            float sum = x[i * r->n->keys];
            for (size_t j = 1; j < r->n->keys; j++) sum += x[i * r->n->keys + j];
            x[i] = sum * share;
        }
    }
}

/* Sets the bit of a query for its own last tokens and for those of the blocks that `best` marks, until it has as many
 * as it may have. */
static void pooled_mark(const block_numbers *n, size_t query, size_t position, const uint64_t *best,
                        const float *sum, float least, uint64_t *chosen) {
    size_t blocks = (position + 1) / n->keys, left = n->top + n->keys - 1, cut = blocks;
    for (size_t j = blocks * n->keys; j <= position; j++, left--) chosen[j] |= UINT64_C(1) << query;
    for (size_t i = 0; i < blocks; i++) {
        if (!(best[i] >> query & 1)) continue;
        if (left < n->keys * blocks && sum[i * QUERIES + query] == least) cut = i; /* the last of the worst */
        for (size_t j = i * n->keys; j < (i + 1) * n->keys; j++) chosen[j] |= UINT64_C(1) << query;
    }
    size_t over = left % n->keys && blocks * n->keys > left ? n->keys - left % n->keys : 0;
    for (size_t j = 0; cut < blocks && j < over; j++)
        chosen[(cut + 1) * n->keys - 1 - j] &= ~(UINT64_C(1) << query);
}

/* The smallest score of the blocks that are marked for a query. */
static float pooled_least(const uint64_t *best, const float *sum, size_t query, size_t blocks) {
    float least = INFINITY;
    for (size_t i = 0; i < blocks; i++)
        if (best[i] >> query & 1) least = fminf(least, sum[i * QUERIES + query]);
    return least;
}

static void pooled_run_block(void *data, size_t place, int thread) {
    const pooled_run *r = data;
    const forward_batch *b = r->b;
    const block_numbers *n = r->n;
    query_block of = query_block_of(b, place);
    size_t s = b->stride, blocks = (of.first + of.queries) / n->keys;
    float *z = r->own->scores + (size_t)thread * r->own->scores_each, *sum = z + blocks * QUERIES,
          *sorted = sum + blocks * QUERIES;
    uint64_t *best = (uint64_t *)(void *)z; /* the products are used up by then */
    uint64_t *chosen = r->own->chosen + place * b->context;
    memset(chosen, 0, b->context * sizeof *chosen);
    memset(sum, 0, blocks * QUERIES * sizeof *sum);
    for (size_t h = 0; blocks && h < n->heads; h++) {
        query_block_multiply(b, &of, thread, r->q + h * n->head * s, r->k + of.begin, n->head, blocks, z);
        for (size_t i = 0; i < blocks * QUERIES; i++)
            sum[i] += i % QUERIES < of.queries && z[i] > 0 ? z[i] : 0;
    }
    memset(best, 0, blocks * sizeof *best);
    for (size_t q = 0; q < of.queries; q++) {
        size_t position = of.first + q, seen = (position + 1) / n->keys,
               left = n->top + n->keys - 1 - (position + 1) % n->keys;
        indexer_choose_keys(ceil_div(left, n->keys), sum, q, seen, best, sorted);
        pooled_mark(n, q, position, best, sum, pooled_least(best, sum, q, seen), chosen);
    }
}

const uint64_t *pooled_choice_make(forward_batch *b, const plan_part *p, const float *x, size_t stride,
                                   const float *q, float *k) {
    const attention_numbers *n = p->part->numbers;
    const attention_scratch *own = batch_own(b, p->part);
    const block_numbers *c = &n->blocks;
    size_t s = b->stride;
    pooled_run r = {b, c, own, q, k};
    batch_multiply(b, WEIGHT_INDEXER_K_PROJ, 0, x, stride, k, s, b->tokens);
    threads_for(b->pool, c->head, THREADS_EVEN, pool_row, &r);
    batch_norm_slot(b, WEIGHT_INDEXER_K_NORM, k, s, c->head, k, s);
    batch_rope_columns(b, p,
                       &(rope_columns){.x = k, .heads = 1, .step = c->keys, .columns = b->context / c->keys});
    threads_for(b->pool, b->windows * ceil_div(b->context, QUERIES), 1, pooled_run_block, &r);
    return own->chosen;
}
