/* Sparse attention by blocks of keys, in two ways.
 *
 * As minimax-m3 has it: beside its keys a layer makes one more key per token, and for each head of keys one more
 * query:
 *
 *     score[i][block] = max over the block's keys j up to i of query[i] . key[j]
 *
 * For each head of keys token i attends to the `top` blocks of the largest scores, of equal ones to the first;
 * the `near` last ones up to its own are always among them. In windows of no more than `top` blocks that is all,
 * and nothing is computed. llama.cpp does this with flash attention; without it, it attends to all keys.
 *
 * Pooled, as qwen4exp has it: a whole block of keys has one key for the choice, the mean of what its tokens
 * give, normalized and rotated by the block's first position:
 *
 *     score[i][block] = sum over heads of max(0, query[i] . key[block])
 *
 * Token i attends to the tokens behind the last block that ends before it, itself among them, and to those of
 * the blocks with the largest scores, of equal ones the first, until it has top + keys - 1 of them, keys being a
 * block's. So the last block may be cut: then it attends to its first tokens, where llama.cpp takes those that
 * its sort happens to leave. */

#include <math.h>
#include <string.h>

#include "forward/graph/attention/indexer.h"

static const float ALWAYS = 1e30F; /* added to the scores of the last blocks, as llama.cpp does */

/* The tokens that pooled keys are made of, the same in all layers that choose. */
static void pooled_read_ratios(forward_model *m, key_reader *r, model_sublayer *p) {
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

void block_choice_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    attention_numbers *n = p->numbers;
    block_numbers *c = &n->blocks;
    indexer_read_sizes(r, &c->heads, &c->head, &c->top);
    if (r->ok && c->head < n->rope.angles[0].rotated)
        key_fail(r, "attention.indexer.key_length", "is %zu, less than the %zu dimensions that RoPE rotates",
                 c->head, n->rope.angles[0].rotated);
    if (m->arch->graph.pools_keys) {
        pooled_read_ratios(m, r, p);
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

void block_choice_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const attention_numbers *n = p->sublayer->numbers;
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

/* Whether a window has more blocks than each token attends to; where they are pooled, more tokens. */
static bool block_choice_is_needed(const forward_batch *b, const block_numbers *c) {
    return c->is_pooled ? c->heads && b->context > c->top + c->keys - 1 : blocks_of(b, c) > c->top;
}

uint64_t block_choice_rows(const sublayer_spec *p) {
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    return l->chooses_blocks ? (n->blocks.heads + 1) * (uint64_t)n->blocks.head : 0;
}

size_t block_choice_scores(const forward_batch *b, const model_sublayer *p) {
    const attention_numbers *n = p->numbers;
    size_t blocks = block_choice_is_needed(b, &n->blocks) ? blocks_of(b, &n->blocks) : 0;
    return n->blocks.is_pooled ? 2 * blocks : blocks;
}

size_t block_choice_stride(const forward_batch *b, const sublayer_spec *p) {
    const attention_numbers *n = p->sublayer->numbers;
    return n->blocks.is_pooled || n->blocks.is_given
               ? 0
               : ceil_div(b->context, QUERIES) * b->most_windows * b->context;
}

void block_choice_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
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
    const float *q;
    float *k;
    size_t stride; /* words of a head's choice */
} block_choice_run;

/* Lets a query attend to the keys from `first` to before `end`. */
static void let_see(uint64_t *chosen, size_t query, size_t first, size_t end) {
    for (size_t j = first; j < end; j++) chosen[j] |= UINT64_C(1) << query;
}

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
        let_see(chosen, query, best * n->keys, min((best + 1) * n->keys, position + 1));
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
    uint64_t *chosen = r->own->chosen + head * r->stride + place * b->context;
    memset(chosen, 0, b->context * sizeof *chosen);
    query_block_multiply(b, &of, thread, r->q + head * n->head * s, r->k + of.begin, s, n->head, keys, z);
    for (size_t q = 0; q < of.queries; q++) {
        block_choice_score(n, z, q, of.first + q, score);
        block_choice_mark(n, score, q, of.first + q, chosen);
    }
}

/* ---- pooled ---- */

/* Puts the means of a row's whole blocks into the first columns of each text. */
static void pooled_mean_row(void *data, size_t row, int) {
    const block_choice_run *r = data;
    const forward_batch *b = r->b;
    float share = 1 / (float)r->n->keys;
    for (size_t w = 0; w < b->n_spans; w++) {
        float *x = r->k + row * b->stride + b->spans[w].first;
        for (size_t i = 0; i < b->spans[w].tokens / r->n->keys; i++) {
            float sum = x[i * r->n->keys];
            for (size_t j = 1; j < r->n->keys; j++) sum += x[i * r->n->keys + j];
            x[i] = sum * share;
        }
    }
}

/* Sets the bit of a query for its own last tokens and for those of the blocks that `best` marks, until it has
 * as many as it may have. */
static void pooled_mark(const block_numbers *n, size_t query, size_t position, const uint64_t *best,
                        const float *sum, float least, uint64_t *chosen) {
    size_t blocks = (position + 1) / n->keys, cut = blocks,
           left = n->top + n->keys - 1 - (position + 1 - blocks * n->keys);
    let_see(chosen, query, blocks * n->keys, position + 1);
    for (size_t i = 0; i < blocks; i++) {
        if (!(best[i] >> query & 1)) continue;
        if (left < n->keys * blocks && sum[i * QUERIES + query] == least) cut = i; /* the last of the worst */
        let_see(chosen, query, i * n->keys, (i + 1) * n->keys);
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
    const block_choice_run *r = data;
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
        query_block_multiply(b, &of, thread, r->q + h * n->head * s, r->k + of.begin, s, n->head, blocks, z);
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

/* Makes keys of the input, x, and chooses by them. */
static void pooled_choose(const block_choice_run *r, const sublayer_spec *p, const float *x, size_t stride) {
    forward_batch *b = r->b;
    const block_numbers *c = r->n;
    size_t s = b->stride;
    batch_multiply(b, WEIGHT_INDEXER_K_PROJ, 0, x, stride, r->k, s, b->tokens);
    threads_for(b->pool, c->head, THREADS_EVEN, pooled_mean_row, (void *)r);
    batch_norm_slot(b, WEIGHT_INDEXER_K_NORM, r->k, s, c->head, r->k, s);
    batch_rope_columns(
        b, p, &(rope_columns){.x = r->k, .heads = 1, .step = c->keys, .columns = b->context / c->keys});
    threads_for(b->pool, b->windows * ceil_div(b->context, QUERIES), 1, pooled_run_block, (void *)r);
}

/* ---- the layer ---- */

/* x = the product of `heads` heads with a weight, normalized and rotated. */
static void block_choice_multiply(forward_batch *b, const sublayer_spec *p, weight_slot weight,
                                  weight_slot norm, size_t heads, const float *in, size_t stride, float *x) {
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    size_t s = b->stride, head = n->blocks.head;
    batch_multiply(b, weight, 0, in, stride, x, s, b->tokens);
    batch_norm_groups(b, b->layer->values[norm], x, head, heads);
    if (l->has_rope) batch_rope(b, p, x, heads, head);
}

const uint64_t *block_choice_make(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride,
                                  float *work) {
    const attention_numbers *n = p->sublayer->numbers;
    const attention_layer *l = p->numbers;
    const block_numbers *c = &n->blocks;
    const attention_scratch *own = batch_own(b, p->sublayer);
    block_choice_run r = {b, c, own, work, work + c->heads * c->head * b->stride, block_choice_stride(b, p)};
    if (c->is_given) return own->chosen;
    if (!own->chosen || !l->chooses_blocks) return NULL;
    block_choice_multiply(b, p, WEIGHT_INDEXER_Q_PROJ, WEIGHT_INDEXER_Q_NORM, c->heads, x, stride, work);
    if (c->is_pooled) {
        pooled_choose(&r, p, x, stride);
    } else {
        block_choice_multiply(b, p, WEIGHT_INDEXER_K_PROJ, WEIGHT_INDEXER_K_NORM, 1, x, stride, r.k);
        threads_for(b->pool, c->heads * b->windows * ceil_div(b->context, QUERIES), 1, block_choice_run_block,
                    &r);
    }
    return own->chosen;
}
