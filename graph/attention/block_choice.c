/* Sparse attention by blocks of keys, as minimax-m3 has it. Beside its keys a layer makes one more key per
 * token, and for each head of keys one more query:
 *
 *     score[i][block] = max over the block's keys j up to i of query[i] . key[j]
 *
 * For each head of keys token i attends to the `top` blocks of the largest scores, of equal ones to the
 * first; the `near` last ones up to its own are always among them. In windows of no more than `top` blocks
 * that is all, and nothing is computed. llama.cpp does this with flash attention; without it, it attends to
 * all keys.
 */
#include "graph/attention/block_choice.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "graph/attention/indexer.h"
#include "graph/attention/pooled_choice.h"
#include "graph/attention/rope.h"

static const float ALWAYS = 1e30F; /* added to the scores of the last blocks, as llama.cpp does */

void block_choice_read_keys(forward_model *m, key_reader *r, model_part *p) {
    attention_numbers *n = p->numbers;
    block_numbers *c = &n->blocks;
    c->heads = key_number_needed(r, "attention.indexer.head_count", 1, MODEL_MOST);
    c->head = key_number_needed(r, "attention.indexer.key_length", 1, MODEL_MOST);
    c->top = key_number_needed(r, "attention.indexer.top_k", 1, MODEL_MOST);
    if (r->ok && c->head < n->rope.angles[0].turned)
        key_fail(r, "attention.indexer.key_length", "is %zu, less than rope turns: %zu", c->head,
                 n->rope.angles[0].turned);
    if (m->arch->graph.pools_keys) {
        pooled_choice_read_keys(m, r, p);
        return;
    }
    c->keys = key_number_needed(r, "attention.indexer.block_size", 1, MODEL_MOST);
    c->near = key_number_needed(r, "attention.indexer.local_blocks", 0, MODEL_MOST);
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        attention_layer *l = model_layer_numbers(m, p, i);
        if (!l || !tensors_layer_has(m, i, WEIGHT_INDEXER_Q_PROJ)) continue;
        l->chooses_blocks = true;
        if (c->heads != l->kv_heads)
            key_fail(r, "attention.indexer.head_count", "is %zu, expected as many as heads of keys: %zu",
                     c->heads, l->kv_heads);
    }
}

void block_choice_find_tensors(tensor_finder *f, const plan_part *p) {
    const attention_numbers *n = p->part->numbers;
    const block_numbers *c = &n->blocks;
    const attention_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width;
    presence is = l->chooses_blocks ? REQUIRED : UNUSED;
    tensors_take_weight(f, WEIGHT_INDEXER_Q_PROJ, is, SHAPE(d, c->heads * c->head));
    tensors_take_weight(f, WEIGHT_INDEXER_K_PROJ, is, SHAPE(d, c->head));
    tensors_take_weight(f, WEIGHT_INDEXER_Q_NORM, is, SHAPE(c->head));
    tensors_take_weight(f, WEIGHT_INDEXER_K_NORM, is, SHAPE(c->head));
}

/* ---- memory ---- */

static size_t blocks_of(const forward_batch *b, const block_numbers *c) {
    return c->heads ? ceil_div(b->context, c->keys) : 0;
}

static bool block_choice_is_needed(const forward_batch *b, const block_numbers *c) {
    return c->is_pooled ? pooled_choice_is_needed(b, c) : blocks_of(b, c) > c->top;
}

uint64_t block_choice_rows(const plan_part *p) {
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    return l->chooses_blocks ? (n->blocks.heads + 1) * (uint64_t)n->blocks.head : 0;
}

size_t block_choice_scores(const forward_batch *b, const model_part *p) {
    const attention_numbers *n = p->numbers;
    size_t blocks = block_choice_is_needed(b, &n->blocks) ? blocks_of(b, &n->blocks) : 0;
    return n->blocks.is_pooled ? 2 * blocks : blocks;
}

size_t block_choice_step(const forward_batch *b, const plan_part *p) {
    const attention_numbers *n = p->part->numbers;
    return n->blocks.is_pooled || n->blocks.is_given
               ? 0
               : ceil_div(b->context, QUERIES) * b->most_windows * b->context;
}

void block_choice_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    const attention_numbers *n = p->numbers;
    attention_scratch *own = batch_own(b, p);
    if (block_choice_is_needed(b, &n->blocks))
        own->chosen =
            scratch_take(s, ceil_div(b->context, QUERIES) * b->most_windows,
                         (n->blocks.is_pooled ? 1 : n->blocks.heads) * b->context, sizeof *own->chosen);
}

/* ---- the choice ---- */

typedef struct block_choice_run {
    forward_batch *b;
    const block_numbers *n;
    const attention_scratch *own;
    const float *q, *k;
    size_t step; /* words of a head's choice */
} block_choice_run;

/* The scores of a query's blocks from those of its keys, [key][query]. */
static void block_choice_score(const block_numbers *n, const float *z, size_t query, size_t position,
                               float *score) {
    size_t own = position / n->keys;
    for (size_t i = 0; i <= own; i++) {
        float most = -INFINITY;
        for (size_t j = i * n->keys; j < (i + 1) * n->keys && j <= position; j++)
            most = fmaxf(most, z[j * QUERIES + query]);
        score[i] = own - i < n->near ? most + ALWAYS : most;
    }
}

/* Sets the bit of a query for the keys of its best blocks. */
static void block_choice_mark(const block_numbers *n, float *score, size_t query, size_t position,
                              uint64_t *chosen) {
    size_t blocks = position / n->keys + 1;
    for (size_t k = 0; k < n->top && k < blocks; k++) {
        size_t best = blocks;
        for (size_t i = 0; i < blocks; i++)
            if (score[i] > -INFINITY && (best == blocks || score[i] > score[best])) best = i;
        if (best == blocks) return;
        for (size_t j = best * n->keys; j < (best + 1) * n->keys && j <= position; j++)
            chosen[j] |= UINT64_C(1) << query;
        score[best] = -INFINITY;
    }
}

/* One block of queries in one window, for one head of keys. */
static void block_choice_run_block(void *data, size_t i, int thread) {
    const block_choice_run *r = data;
    const forward_batch *b = r->b;
    const block_numbers *n = r->n;
    size_t s = b->stride, blocks = ceil_div(b->context, QUERIES), of_head = b->windows * blocks;
    size_t head = i / of_head, place = i % of_head;
    query_block of = query_block_of(b, place);
    size_t keys = of.first + of.queries;
    float *z = r->own->scores + (size_t)thread * r->own->scores_each, *score = z + keys * QUERIES;
    uint64_t *chosen = r->own->chosen + head * r->step + place * b->context;
    memset(chosen, 0, b->context * sizeof *chosen);
    query_block_multiply(b, &of, thread, r->q + head * n->head * s, r->k + of.begin, n->head, keys, z);
    for (size_t q = 0; q < of.queries; q++) {
        block_choice_score(n, z, q, of.first + q, score);
        block_choice_mark(n, score, q, of.first + q, chosen);
    }
}

/* x = the product of `heads` heads with a weight, normed and turned. */
static void block_choice_multiply(forward_batch *b, const plan_part *p, weight_slot weight, weight_slot norm,
                                  size_t heads, const float *in, size_t stride, float *x) {
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    size_t s = b->stride, head = n->blocks.head;
    batch_multiply(b, weight, 0, in, stride, x, s, b->tokens);
    batch_norm_groups(b, b->layer->values[norm], x, head, heads);
    if (l->has_rope) batch_rope(b, p, x, heads, head);
}

const uint64_t *block_choice_make(forward_batch *b, const plan_part *p, const float *x, size_t stride,
                                  float *work) {
    const attention_numbers *n = p->part->numbers;
    const attention_layer *l = p->numbers;
    const block_numbers *c = &n->blocks;
    const attention_scratch *own = batch_own(b, p->part);
    float *k = work + c->heads * c->head * b->stride;
    if (c->is_given) return own->chosen;
    if (!own->chosen || !l->chooses_blocks) return NULL;
    block_choice_multiply(b, p, WEIGHT_INDEXER_Q_PROJ, WEIGHT_INDEXER_Q_NORM, c->heads, x, stride, work);
    if (c->is_pooled) return pooled_choice_make(b, p, x, stride, work, k);
    block_choice_multiply(b, p, WEIGHT_INDEXER_K_PROJ, WEIGHT_INDEXER_K_NORM, 1, x, stride, k);
    block_choice_run r = {b, c, own, work, k, block_choice_step(b, p)};
    threads_for(b->pool, c->heads * b->windows * ceil_div(b->context, QUERIES), 1, block_choice_run_block,
                &r);
    return own->chosen;
}
