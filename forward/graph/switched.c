/* A token's adapter is the mean of those that its text has switched on so far, weighed by a softmax in which
 * tokens that switch count e^gain and others, which are none's, e^-gain; the mean is rounded. So behind one
 * such token it is that token's. Its number is carried with the hidden state. For a product tokens are sorted
 * by their numbers, and those of one number are multiplied side by side. */

#include <math.h>
#include <stdlib.h>

#include "forward/graph/attention/attention.h"

enum { SWITCHED_MOST = 4096 }; /* adapters, and rows of A, as in llama.cpp */

/* A token that switches an adapter on. */
typedef struct switched_token {
    uint32_t id, substitute, adapter; /* adapter: from 1 on */
} switched_token;

typedef struct switched_numbers {
    size_t adapters, rank;
    double share; /* that a token which switches none counts, where one that does counts 1 */
    switched_token tokens[SWITCHED_MOST]; /* ascending */
} switched_numbers;

typedef struct switched_scratch {
    uint32_t *token, *begin;  /* tokens of the batch by their adapters; where those of an adapter begin */
    float *in, *middle, *out; /* of one adapter's tokens */
} switched_scratch;

/* The weight that a LoRA pair belongs to. Pairs of one matrix follow one another in its rows. */
static const struct {
    weight_slot into, a, b;
} switched_pairs[] = {
    {WEIGHT_ATTN_QKV, WEIGHT_ATTN_Q_LORA_A, WEIGHT_ATTN_Q_LORA_B},
    {WEIGHT_ATTN_QKV, WEIGHT_ATTN_K_LORA_A, WEIGHT_ATTN_K_LORA_B},
    {WEIGHT_ATTN_QKV, WEIGHT_ATTN_V_LORA_A, WEIGHT_ATTN_V_LORA_B},
    {WEIGHT_ATTN_OUTPUT, WEIGHT_ATTN_OUTPUT_LORA_A, WEIGHT_ATTN_OUTPUT_LORA_B},
    {WEIGHT_FFN_GATE, WEIGHT_FFN_GATE_LORA_A, WEIGHT_FFN_GATE_LORA_B},
    {WEIGHT_FFN_UP, WEIGHT_FFN_UP_LORA_A, WEIGHT_FFN_UP_LORA_B},
    {WEIGHT_FFN_DOWN, WEIGHT_FFN_DOWN_LORA_A, WEIGHT_FFN_DOWN_LORA_B},
};
enum {
    SWITCHED_PAIRS = sizeof switched_pairs / sizeof *switched_pairs,
    SWITCHED_FUSED = 3 /* of attn_qkv */
};

/* ---- keys and tensors ---- */

static int switched_compare(const void *a, const void *b) {
    const switched_token *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static const switched_token *switched_find(const switched_numbers *n, uint32_t id) {
    return bsearch(&(switched_token){.id = id}, n->tokens, n->adapters, sizeof *n->tokens, switched_compare);
}

static void switched_read_tokens(switched_numbers *n, key_reader *r) {
    const char *names[] = {"adapters.token_ids_activate", "adapters.token_ids_substitute"};
    key_list lists[2];
    for (int k = 0; k < 2; k++) {
        uint64_t count = 0;
        lists[k] = key_list_needed(r, names[k]);
        if (lists[k].kv && (!key_list_counts(&lists[k], &count) || count != n->adapters))
            key_fail(r, names[k], "is not an array of adapters.count tokens, %zu", n->adapters);
    }
    for (size_t i = 0; i < n->adapters && r->ok; i++)
        n->tokens[i] =
            (switched_token){(uint32_t)key_number_at(r, &lists[0], i, 0, 0, MODEL_MOST),
                             (uint32_t)key_number_at(r, &lists[1], i, 0, 0, MODEL_MOST), (uint32_t)i + 1};
    qsort(n->tokens, n->adapters, sizeof *n->tokens, switched_compare);
    for (size_t i = 1; i < n->adapters && r->ok; i++)
        if (n->tokens[i].id == n->tokens[i - 1].id)
            key_fail(r, names[0], "has token %u twice: it cannot switch two adapters on", n->tokens[i].id);
}

static void switched_read_keys(forward_model *, key_reader *r, model_sublayer *p) {
    switched_numbers *n = p->numbers;
    n->adapters = key_number_needed(r, "adapters.count", 1, SWITCHED_MOST);
    n->rank = key_number_needed(r, "adapters.lora_rank", 1, SWITCHED_MOST);
    /* The bound is that of F16, in which llama.cpp keeps it. */
    n->share = exp(-2 * key_float(r, "adapters.router_gain", 15, 0, 65504));
    if (r->ok) switched_read_tokens(n, r);
}

static void switched_find_model_tensors(tensor_finder *f, model_sublayer *p) {
    const switched_numbers *n = p->numbers;
    size_t ids = f->m->sizes.vocabulary;
    for (size_t i = 0; i < n->adapters && f->ok && f->m->sizes.embedding; i++)
        if (n->tokens[i].id >= ids || n->tokens[i].substitute >= ids)
            f->ok =
                gq_fail(f->e,
                        "%s: adapter %u is switched on by token %u, which has the embedding of token %u, but "
                        "there are only %zu tokens",
                        f->m->path, n->tokens[i].adapter, n->tokens[i].id, n->tokens[i].substitute, ids);
}

static void switched_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const switched_numbers *n = p->sublayer->numbers;
    const attention_layer *l = f->l->mixer.numbers;
    uint64_t slots = n->adapters + 1, keys = l->kv_heads * l->head;
    const uint64_t fused[SWITCHED_FUSED] = {l->heads * l->head, keys, keys};
    for (size_t i = 0; i < SWITCHED_PAIRS; i++) {
        const model_tensor *t = f->l->weight[switched_pairs[i].into];
        if (!t) continue; /* it is missing, which has been reported */
        uint64_t columns = t->ne[t->transposed ? 1 : 0],
                 rows = i < SWITCHED_FUSED ? fused[i] : tensor_rows(t);
        tensors_take_weight(f, switched_pairs[i].a, REQUIRED, SHAPE(columns, n->rank, slots));
        tensors_take_weight(f, switched_pairs[i].b, REQUIRED, SHAPE(n->rank, rows, slots));
    }
}

/* ---- tokens ---- */

uint32_t switched_id(const forward_model *m, uint32_t id) {
    const switched_numbers *n = model_numbers(m, &sublayer_switched);
    const switched_token *t = n ? switched_find(n, id) : NULL;
    return t ? t->substitute : id;
}

/* A row with the number of each token's adapter. */
static uint64_t switched_carried_rows(const forward_model *, const model_sublayer *, size_t) { return 1; }

static bool switched_embed(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *,
                           float *carried, size_t) {
    const switched_numbers *n = p->numbers;
    for (size_t i = 0; i < b->n_spans; i++) {
        double sum = 0, on = 0, others = 0;
        for (size_t t = b->spans[i].first; t < b->spans[i].first + b->spans[i].tokens; t++) {
            const switched_token *of = switched_find(n, ids[t]);
            if (of)
                sum += of->adapter, on++;
            else
                others++;
            /* Rounded to 32 bits first: a mean that is all but half is half there. */
            carried[t] = on > 0 ? roundf((float)(sum / (on + others * n->share))) : 0;
        }
    }
    return true;
}

/* ---- running ---- */

static void switched_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const switched_numbers *n = p->numbers;
    const forward_model *m = b->model;
    switched_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    uint64_t in = 0, out = 0;
    for (size_t i = 0; i < m->sizes.layers; i++)
        for (size_t k = 0; k < SWITCHED_PAIRS; k++) {
            in = max(in, m->layers[i].weight[switched_pairs[k].a]->ne[0]);
            out = max(out, m->layers[i].weight[switched_pairs[k].b]->ne[1]);
        }
    own->token = scratch_take(s, b->stride, 1, sizeof *own->token);
    own->begin = scratch_take(s, n->adapters + 2, 1, sizeof *own->begin);
    own->in = scratch_take(s, in, b->stride, sizeof(float));
    own->middle = scratch_take(s, n->rank, b->stride, sizeof(float));
    own->out = scratch_take(s, out, b->stride, sizeof(float));
}

/* Sorts the batch's tokens by their adapters. */
static void switched_sort(forward_batch *b, const switched_numbers *n, const switched_scratch *own,
                          const float *adapter) {
    for (size_t i = 0; i < n->adapters + 2; i++) own->begin[i] = 0;
    for (size_t t = 0; t < b->tokens; t++) own->begin[(size_t)adapter[t] + 1]++;
    for (size_t i = 0; i <= n->adapters; i++) own->begin[i + 1] += own->begin[i];
    for (size_t t = b->tokens; t-- > 0;) own->token[--own->begin[(size_t)adapter[t] + 1]] = (uint32_t)t;
    /* Each beginning has become that of the number before it. */
    for (size_t i = 0; i <= n->adapters; i++) own->begin[i] = own->begin[i + 1];
    own->begin[n->adapters + 1] = (uint32_t)b->tokens;
}

/* Columns of one adapter's tokens, put side by side or added back. */
typedef struct switched_columns {
    const uint32_t *token;
    size_t n, from_stride, to_stride;
    const float *from;
    float *to;
} switched_columns;

static void switched_gather_row(void *data, size_t r, int) {
    const switched_columns *c = data;
    for (size_t i = 0; i < c->n; i++) c->to[r * c->to_stride + i] = c->from[r * c->from_stride + c->token[i]];
}

static void switched_scatter_row(void *data, size_t r, int) {
    const switched_columns *c = data;
    for (size_t i = 0; i < c->n; i++)
        c->to[r * c->to_stride + c->token[i]] += c->from[r * c->from_stride + i];
}

/* Adds what a pair makes of x, for the tokens of each adapter. */
static void switched_add_pair(forward_batch *b, const switched_scratch *own, size_t adapters, size_t pair,
                              const float *x, size_t x_stride, float *y, size_t y_stride) {
    weight_slot slot_a = switched_pairs[pair].a, slot_b = switched_pairs[pair].b;
    const model_tensor *ta = b->layer->plan->weight[slot_a], *tb = b->layer->plan->weight[slot_b];
    size_t s = b->stride;
    for (size_t i = 0; i <= adapters; i++) {
        switched_columns in = {own->token + own->begin[i],
                               own->begin[i + 1] - own->begin[i],
                               x_stride,
                               s,
                               x,
                               own->in},
                         out = {in.token, in.n, s, y_stride, own->out, y};
        if (in.n == 0) continue;
        threads_for(b->pool, ta->ne[0], THREADS_EVEN, switched_gather_row, &in);
        batch_multiply_some(b, slot_a, i * ta->ne[1], own->in, s,
                            &(batch_values){own->middle, ta->ne[1], s, in.n});
        batch_multiply_some(b, slot_b, i * tb->ne[1], own->middle, s,
                            &(batch_values){own->out, tb->ne[1], s, in.n});
        threads_for(b->pool, tb->ne[1], THREADS_EVEN, switched_scatter_row, &out);
    }
}

static void switched_add(forward_batch *b, const sublayer_spec *p, weight_slot s, const float *x,
                         size_t x_stride, float *y, size_t y_stride) {
    const switched_numbers *n = p->sublayer->numbers;
    const switched_scratch *own = batch_own(b, p->sublayer);
    bool is_sorted = false;
    for (size_t i = 0; i < SWITCHED_PAIRS; i++) {
        if (switched_pairs[i].into != s) continue;
        if (!is_sorted) switched_sort(b, n, own, batch_carried(b, p->sublayer));
        is_sorted = true;
        switched_add_pair(b, own, n->adapters, i, x, x_stride, y, y_stride);
        y += b->layer->plan->weight[switched_pairs[i].b]->ne[1] * y_stride;
    }
}

const sublayer_kind sublayer_switched = {
    .model_bytes = sizeof(switched_numbers),
    .read_keys = switched_read_keys,
    .find_model_tensors = switched_find_model_tensors,
    .find_tensors = switched_find_tensors,
    .carried_rows = switched_carried_rows,
    .embed = switched_embed,
    .lay_out = switched_lay_out,
    .add = switched_add,
};
