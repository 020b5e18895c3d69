/* The mixers of RWKV 6 (Peng et al. 2024, arXiv:2404.05892) and 7
 * (arXiv:2503.14456). A matrix's input is a blend of the norms of the hidden states at a token and at the
 * previous one; how much of either is a number per feature, which in RWKV 6 depends on the token as well. A
 * head's state is a matrix from the features of keys to those of values, whose rows decay by numbers of the
 * token. In RWKV 7 the state also forgets what a key stood for before it takes in the key's new value. Small
 * matrices of low rank make decays and the like; no mix quantizes them. */
#include "forward/graph/recurrent/recurrent.h"

#include <math.h>
#include <string.h>

typedef struct rwkv_numbers {
    size_t heads, kv_heads, head; /* head: features */
} rwkv_numbers;

typedef struct rwkv_layer {
    size_t low;    /* rows of the largest matrix of low rank */
    size_t mix;    /* rows of a fifth of time_mix_w1 */
    bool is_first; /* its values are what later layers mix theirs with */
} rwkv_layer;

#define GROUP_NORM_EPS 64e-5F

typedef struct rwkv_blend_loop {
    const forward_batch *b;
    const rwkv_blend *l;
} rwkv_blend_loop;

static void rwkv_blend_row(void *data, size_t r, int) {
    const rwkv_blend_loop *of = data;
    const rwkv_blend *l = of->l;
    const float *m = l->m ? l->m + r * of->b->stride : NULL;
    for (size_t i = 0; i < of->b->n_spans; i++) {
        batch_span text = of->b->spans[i];
        const float *x = l->x + r * l->x_stride + text.first;
        float *y = l->y + r * of->b->stride + text.first;
        for (size_t t = 0; t < text.tokens; t++) {
            float share = l->lerp[r] + (m ? m[text.first + t] : 0);
            y[t] = share * ((t ? x[t - 1] : 0) - x[t]) + x[t];
        }
    }
}

void rwkv_blend_rows(forward_batch *b, const rwkv_blend *l) {
    threads_for(b->pool, b->model->sizes.width, THREADS_EVEN, rwkv_blend_row, &(rwkv_blend_loop){b, l});
}

/* ---- keys and tensors ---- */

static void rwkv_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    rwkv_numbers *n = p->numbers;
    n->head = key_number_needed(r, "wkv.head_size", 1, MODEL_MOST);
    n->heads = m->sizes.width / n->head;
    if (n->heads * n->head != m->sizes.width || !n->heads) {
        key_fail(r, "wkv.head_size", "is %zu, expected a divisor of embedding_length: %zu", n->head,
                 m->sizes.width);
        return;
    }
    n->kv_heads = key_number(r, "attention.head_count_kv", 0, 0, MODEL_MOST);
    if (!n->kv_heads) n->kv_heads = n->heads;
    /* Heads share keys and values in rwkv6qwen2 alone, which has no bonus for the first token. */
    bool shares = p->kind == &mixer_rwkv6 && m->arch->graph.has[WEIGHT_TIME_MIX_FIRST] == ABSENT;
    if (n->heads % n->kv_heads != 0 || (!shares && n->kv_heads != n->heads))
        key_fail(r, "attention.head_count_kv", "is %zu, expected %s%zu heads", n->kv_heads,
                 shares ? "a divisor of " : "", n->heads);
    rwkv_layer *first = model_layer_numbers(m, p, 0);
    if (first) first->is_first = true;
}

/* Takes two matrices of low rank, from the width and back. Those of values that are not used have the rank of
 * the learning rate's. */
static void rwkv_find_low(tensor_finder *f, rwkv_layer *l, weight_slot in, weight_slot out, presence is) {
    uint64_t d = f->m->sizes.width, rank = tensors_rows(f, is == UNUSED ? WEIGHT_TIME_MIX_A1 : in);
    tensors_take_weight(f, in, is, SHAPE(d, rank));
    if (is == OPTIONAL) is = f->l->weight[in] ? REQUIRED : ABSENT;
    tensors_take_weight(f, out, is, SHAPE(rank, d));
    if (rank > l->low) l->low = rank;
}

static void rwkv_find_matrices(tensor_finder *f, const rwkv_numbers *n) {
    uint64_t d = f->m->sizes.width, kv = (uint64_t)n->kv_heads * n->head;
    presence bias = f->m->arch->graph.qkv_bias;
    tensors_take_biased(f, WEIGHT_TIME_MIX_RECEPTANCE, REQUIRED, SHAPE(d, d), bias);
    tensors_take_biased(f, WEIGHT_TIME_MIX_KEY, REQUIRED, SHAPE(d, kv), bias);
    tensors_take_biased(f, WEIGHT_TIME_MIX_VALUE, REQUIRED, SHAPE(d, kv), bias);
    tensors_take_biased(f, WEIGHT_TIME_MIX_LN, f->m->arch->graph.has[WEIGHT_TIME_MIX_LN], SHAPE(d), REQUIRED);
    tensors_take_weight(f, WEIGHT_TIME_MIX_OUTPUT, REQUIRED, SHAPE(d, d));
}

/* The shares of the blends for decays, keys, values, queries and gates, where they are vectors of their own. */
static const weight_slot rwkv6_lerps[] = {WEIGHT_TIME_MIX_LERP_W, WEIGHT_TIME_MIX_LERP_K,
                                          WEIGHT_TIME_MIX_LERP_V, WEIGHT_TIME_MIX_LERP_R,
                                          WEIGHT_TIME_MIX_LERP_G};
enum { LERPS = sizeof rwkv6_lerps / sizeof *rwkv6_lerps };

static void rwkv6_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const rwkv_numbers *n = p->sublayer->numbers;
    const presence *has = f->m->arch->graph.has;
    rwkv_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width, rank = tensors_rows(f, WEIGHT_TIME_MIX_W1);
    bool has_all = tensors_layer_has(f->m, f->index, WEIGHT_TIME_MIX_LERP_ALL);
    l->mix = rank < LERPS ? 1 : rank / LERPS;
    l->low = LERPS * l->mix;
    tensors_take_weight(f, WEIGHT_TIME_MIX_LERP_X, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_TIME_MIX_LERP_ALL, has_all ? REQUIRED : ABSENT, SHAPE(d, 1, 1, LERPS));
    for (size_t i = 0; i < LERPS; i++)
        tensors_take_weight(f, rwkv6_lerps[i], has_all ? ABSENT : REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_TIME_MIX_W1, REQUIRED, SHAPE(d, LERPS * l->mix));
    tensors_take_weight(f, WEIGHT_TIME_MIX_W2, REQUIRED, SHAPE(l->mix, d, LERPS));
    tensors_take_weight(f, WEIGHT_TIME_MIX_FIRST, has[WEIGHT_TIME_MIX_FIRST], SHAPE(n->head, n->heads));
    tensors_take_weight(f, WEIGHT_TIME_MIX_DECAY, REQUIRED, SHAPE(d));
    rwkv_find_low(f, l, WEIGHT_TIME_MIX_DECAY_W1, WEIGHT_TIME_MIX_DECAY_W2, REQUIRED);
    tensors_take_weight(f, WEIGHT_TIME_MIX_GATE, REQUIRED, SHAPE(d, d));
    rwkv_find_matrices(f, n);
}

static void rwkv7_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    static const weight_slot vectors[] = {WEIGHT_TIME_MIX_W0, WEIGHT_TIME_MIX_A0, WEIGHT_TIME_MIX_K_K,
                                          WEIGHT_TIME_MIX_K_A, WEIGHT_TIME_MIX_R_K};
    const presence *has = f->m->arch->graph.has;
    rwkv_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width;
    presence later = l->is_first ? UNUSED : REQUIRED;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        tensors_take_weight(f, vectors[i], REQUIRED, SHAPE(d));
    rwkv_find_low(f, l, WEIGHT_TIME_MIX_W1, WEIGHT_TIME_MIX_W2, REQUIRED);
    rwkv_find_low(f, l, WEIGHT_TIME_MIX_A1, WEIGHT_TIME_MIX_A2, REQUIRED);
    tensors_take_weight(f, WEIGHT_TIME_MIX_V0, later, SHAPE(d));
    rwkv_find_low(f, l, WEIGHT_TIME_MIX_V1, WEIGHT_TIME_MIX_V2, later);
    rwkv_find_low(f, l, WEIGHT_TIME_MIX_G1, WEIGHT_TIME_MIX_G2, has[WEIGHT_TIME_MIX_G1]);
    uint64_t lerps = f->l->weight[WEIGHT_TIME_MIX_G1] ? 6 : 5;
    tensors_take_weight(f, WEIGHT_TIME_MIX_LERP_ALL, REQUIRED, SHAPE(d, 1, 1, lerps));
    rwkv_find_matrices(f, p->sublayer->numbers);
}

/* Arrays of the width, in work. Those of the token before are RWKV 6's with a bonus. */
enum {
    R6_RECEPTANCE,
    R6_KEY,
    R6_VALUE,
    R6_GATE,
    R6_DECAY,
    R6_KEY_BEFORE,
    R6_VALUE_BEFORE,
    R6_DECAY_BEFORE,
    R6_BLEND,
    R6_SHARES,
    RWKV6_ARRAYS
};
/* The first ones are made of the blends of these numbers. */
enum {
    R7_RECEPTANCE,
    R7_DECAY,
    R7_KEY,
    R7_VALUE,
    R7_RATE,
    R7_GATE,
    R7_OUTPUT,
    R7_RESTORED,
    R7_REMOVED,
    RWKV7_ARRAYS,
    R7_VALUE_SHARE = R7_RESTORED,
    R7_BLEND = R7_REMOVED /* before those are computed */
};

static uint64_t rwkv6_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *p) {
    const rwkv_numbers *n = p->sublayer->numbers;
    const rwkv_layer *l = p->numbers;
    return RWKV6_ARRAYS * (uint64_t)m->sizes.width + l->low + n->heads;
}

static uint64_t rwkv7_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *p) {
    const rwkv_layer *l = p->numbers;
    return RWKV7_ARRAYS * (uint64_t)m->sizes.width + l->low;
}

static void rwkv_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const rwkv_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, max(recurrence_floats(n->head), forgetting_floats(n->head)));
}

/* ---- steps ---- */

/* y = out low(in x), low: tanh, sigmoid, or nothing; plus a number for each row. */
typedef enum rwkv_low_rank { LOW_PLAIN, LOW_TANH, LOW_SIGMOID } rwkv_low_rank;
static void rwkv_multiply_low(forward_batch *b, weight_slot in, weight_slot out, weight_slot added,
                              rwkv_low_rank kind, const float *x, float *low, float *y) {
    size_t s = b->stride, rank = b->layer->plan->weight[in]->ne[1];
    batch_multiply(b, in, 0, x, s, low, s, b->tokens);
    if (kind == LOW_TANH) batch_change_rows(b, b->model->elements->cap, batch_rows(b, low, rank), 1);
    if (kind == LOW_SIGMOID) batch_sigmoid_rows(b, low, rank);
    batch_multiply(b, out, 0, low, s, y, s, b->tokens);
    if (added != WEIGHT_SLOTS)
        batch_affine_rows(b, batch_rows(b, y, b->model->sizes.width), NULL, b->layer->values[added]);
}

typedef struct rwkv_rows {
    const forward_batch *b;
    const rwkv_numbers *n;
    float *x, *y, *z;
    const float *u, *w;
} rwkv_rows;

/* x = e^(-e^x) */
static void rwkv_decay_row(void *data, size_t r, int) {
    const rwkv_rows *of = data;
    float *x = of->x + r * of->b->stride;
    of->b->model->elements->exponential(x, of->b->tokens);
    of->b->model->kernels->recurrence->decay(x, x, -1, of->b->tokens);
}

/* y = x of the token before, 0 before the first. */
static void rwkv_shift_row(void *data, size_t r, int) {
    const rwkv_rows *of = data;
    for (size_t i = 0; i < of->b->n_spans; i++) {
        size_t at = r * of->b->stride + of->b->spans[i].first;
        memcpy(of->y + at + 1, of->x + at, (of->b->spans[i].tokens - 1) * sizeof *of->y);
        of->y[at] = 0;
    }
}

static void rwkv_shift_rows(forward_batch *b, float *x, float *y) {
    threads_for(b->pool, b->model->sizes.width, THREADS_EVEN, rwkv_shift_row,
                &(rwkv_rows){.b = b, .x = x, .y = y});
}

/* z[value of head h] += y[the same] (sum over the head's features of x u w); u: a number per feature. */
static void rwkv_add_bonus(void *data, size_t h, int) {
    const rwkv_rows *of = data;
    size_t s = of->b->stride, head = of->n->head, first = h * head;
    for (size_t t = 0; t < of->b->tokens; t++) {
        float sum = 0;
        for (size_t i = first; i < first + head; i++) sum += of->x[i * s + t] * of->u[i] * of->w[i * s + t];
        for (size_t i = first; i < first + head; i++) of->z[i * s + t] += of->y[i * s + t] * sum;
    }
}

/* x -= x y */
static void rwkv_keep_rest(void *data, size_t r, int) {
    const rwkv_rows *of = data;
    size_t at = r * of->b->stride;
    for (size_t t = 0; t < of->b->tokens; t++) of->x[at + t] -= of->x[at + t] * of->y[at + t];
}

/* Heads of keys or values become as many as queries have, from the last on. */
static void rwkv_spread_heads(const forward_batch *b, const rwkv_numbers *n, float *x) {
    size_t share = n->heads / n->kv_heads, rows = n->head * b->stride;
    for (size_t h = n->heads; share > 1 && h-- > 0;)
        memmove(x + h * rows, x + h / share * rows, rows * sizeof *x);
}

static void rwkv_norm_heads(forward_batch *b, const rwkv_numbers *n, float *x) {
    const float *weight = b->layer->values[WEIGHT_TIME_MIX_LN];
    if (!weight) return;
    batch_norm(b,
               &(norm_groups){
                   .y = x, .features = n->head, .groups = n->heads, .centers = true, .eps = GROUP_NORM_EPS});
    batch_affine_rows(b, batch_rows(b, x, b->model->sizes.width), weight,
                      b->layer->bias_values[WEIGHT_TIME_MIX_LN]);
}

/* ---- RWKV 6 ---- */

/* Blend number i of the input, by its share of the low-rank blends. */
static void rwkv6_blend(forward_batch *b, const sublayer_spec *p, size_t i, const float *x, size_t stride,
                        const float *low, float *m, float *y) {
    const rwkv_layer *l = p->numbers;
    const float *all = b->layer->values[WEIGHT_TIME_MIX_LERP_ALL];
    const float *lerp = all ? all + i * b->model->sizes.width : b->layer->values[rwkv6_lerps[i]];
    batch_multiply(b, WEIGHT_TIME_MIX_W2, i, low + i * l->mix * b->stride, b->stride, m, b->stride,
                   b->tokens);
    rwkv_blend_rows(b, &(rwkv_blend){.x = x, .m = m, .lerp = lerp, .y = y, .x_stride = stride});
}

/* The states of all heads; what they give is in a[R6_KEY]. */
static void rwkv6_recur(forward_batch *b, const sublayer_spec *p, float *const *a, float *rate) {
    const rwkv_numbers *n = p->sublayer->numbers;
    const float *first = b->layer->values[WEIGHT_TIME_MIX_FIRST];
    size_t s = b->stride, d = b->model->sizes.width;
    float *key = a[R6_KEY], *value = a[R6_VALUE], *decay = a[R6_DECAY];
    for (size_t h = 0; h < n->heads; h++)
        for (size_t t = 0; t < b->tokens; t++) rate[h * s + t] = 1;
    if (first) { /* a token's query reads the state that the token before it has left */
        rwkv_shift_rows(b, a[R6_KEY], key = a[R6_KEY_BEFORE]),
            rwkv_shift_rows(b, a[R6_VALUE], value = a[R6_VALUE_BEFORE]);
        rwkv_shift_rows(b, a[R6_DECAY], decay = a[R6_DECAY_BEFORE]);
    } else {
        rwkv_spread_heads(b, n, key), rwkv_spread_heads(b, n, value);
        threads_for(b->pool, d, THREADS_EVEN, rwkv_keep_rest, &(rwkv_rows){.b = b, .x = key, .y = decay});
    }
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = key,
                                   .query = a[R6_RECEPTANCE],
                                   .decay = decay,
                                   .rate = rate,
                                   .value = value,
                                   .heads = n->heads,
                                   .key_heads = n->heads,
                                   .rows = n->head,
                                   .columns = n->head,
                                   .scale = first ? 1 : (float)(1 / sqrt((double)n->head)),
                                   .has_decays = true});
    if (first)
        threads_for(b->pool, n->heads, 1, rwkv_add_bonus,
                    &(rwkv_rows){.b = b,
                                 .n = n,
                                 .x = a[R6_RECEPTANCE],
                                 .y = a[R6_VALUE],
                                 .z = value,
                                 .u = first,
                                 .w = a[R6_KEY]});
    memmove(a[R6_KEY], value, d * s * sizeof *value);
}

static bool rwkv6_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    static const weight_slot matrices[] = {WEIGHT_TIME_MIX_KEY, WEIGHT_TIME_MIX_VALUE,
                                           WEIGHT_TIME_MIX_RECEPTANCE, WEIGHT_TIME_MIX_GATE};
    const rwkv_layer *l = p->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, d = b->model->sizes.width;
    float *a[RWKV6_ARRAYS];
    for (size_t i = 0; i < RWKV6_ARRAYS; i++) a[i] = b->work + i * d * s;
    float *low = a[RWKV6_ARRAYS - 1] + d * s, *rate = low + l->low * s, *blend = a[R6_BLEND],
          *m = a[R6_SHARES];
    float *to[] = {a[R6_KEY], a[R6_VALUE], a[R6_RECEPTANCE], a[R6_GATE]};
    rwkv_blend_rows(
        b, &(rwkv_blend){.x = x, .lerp = values[WEIGHT_TIME_MIX_LERP_X], .y = blend, .x_stride = stride});
    batch_multiply(b, WEIGHT_TIME_MIX_W1, 0, blend, s, low, s, b->tokens);
    batch_change_rows(b, b->model->elements->cap,
                      batch_rows(b, low, b->layer->plan->weight[WEIGHT_TIME_MIX_W1]->ne[1]), 1);
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
        rwkv6_blend(b, p, i + 1, x, stride, low, m, blend);
        if (!batch_apply(b, matrices[i], 0, blend, s, to[i], s)) return false;
    }
    rwkv6_blend(b, p, 0, x, stride, low, m, blend);
    rwkv_multiply_low(b, WEIGHT_TIME_MIX_DECAY_W1, WEIGHT_TIME_MIX_DECAY_W2, WEIGHT_TIME_MIX_DECAY, LOW_TANH,
                      blend, low, a[R6_DECAY]);
    threads_for(b->pool, d, THREADS_EVEN, rwkv_decay_row, &(rwkv_rows){.b = b, .x = a[R6_DECAY]});
    rwkv6_recur(b, p, a, rate);
    if (values[WEIGHT_TIME_MIX_FIRST]) rwkv_norm_heads(b, p->sublayer->numbers, a[R6_KEY]);
    batch_gate_states(b, a[R6_GATE], a[R6_KEY], d, !values[WEIGHT_TIME_MIX_FIRST]);
    return batch_apply(b, WEIGHT_TIME_MIX_OUTPUT, 0, a[R6_GATE], s, b->output, s);
}

/* ---- RWKV 7 ---- */

/* The first layer's values are kept; a later one's become x + (kept - x) share. */
static void rwkv7_mix_values(forward_batch *b, const sublayer_spec *p, float *value, const float *share) {
    const rwkv_layer *l = p->numbers;
    for (size_t r = 0; r < b->model->sizes.width; r++) {
        float *kept = batch_carried(b, p->sublayer) + r * b->residual_stride, *x = value + r * b->stride;
        if (l->is_first) memcpy(kept, x, b->tokens * sizeof *x);
        for (size_t t = 0; !l->is_first && t < b->tokens; t++)
            x[t] += (kept[t] - x[t]) * share[r * b->stride + t];
    }
}

/* x = (1 + (y - 1) u) x for a row, of whose keys y are the rates. */
static void rwkv7_rate_row(void *data, size_t r, int) {
    const rwkv_rows *of = data;
    size_t at = r * of->b->stride;
    for (size_t t = 0; t < of->b->tokens; t++) {
        float bonus = of->x[at + t] * of->u[r];
        of->x[at + t] += of->y[at + t] * bonus - bonus;
    }
}

/* x = -y, y = y z: what is removed, and what is put back by rate z. */
static void rwkv7_split_row(void *data, size_t r, int) {
    const rwkv_rows *of = data;
    size_t at = r * of->b->stride;
    for (size_t t = 0; t < of->b->tokens; t++) {
        float found = of->y[at + t];
        of->x[at + t] = -found, of->y[at + t] = found * of->z[at + t];
    }
}

/* The states of all heads; what they give is in a[R7_OUTPUT]. */
static void rwkv7_recur(forward_batch *b, const sublayer_spec *p, float *const *a) {
    const rwkv_numbers *n = p->sublayer->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, d = b->model->sizes.width;
    memcpy(a[R7_RESTORED], a[R7_KEY], d * s * sizeof **a);
    batch_affine_rows(b, batch_rows(b, a[R7_RESTORED], d), values[WEIGHT_TIME_MIX_K_K], NULL);
    batch_unit_groups(b, a[R7_RESTORED], n->head, n->heads, 1e-24F); /* of the square */
    threads_for(b->pool, d, THREADS_EVEN, rwkv7_rate_row,
                &(rwkv_rows){.b = b, .x = a[R7_KEY], .y = a[R7_RATE], .u = values[WEIGHT_TIME_MIX_K_A]});
    threads_for(b->pool, d, THREADS_EVEN, rwkv7_split_row,
                &(rwkv_rows){.b = b, .x = a[R7_REMOVED], .y = a[R7_RESTORED], .z = a[R7_RATE]});
    memcpy(a[R7_OUTPUT], a[R7_VALUE], d * s * sizeof **a);
    batch_forget(b, batch_own(b, p->sublayer),
                 &(forgetting_heads){.key = a[R7_KEY],
                                     .query = a[R7_RECEPTANCE],
                                     .decay = a[R7_DECAY],
                                     .remove = a[R7_REMOVED],
                                     .restore = a[R7_RESTORED],
                                     .value = a[R7_OUTPUT],
                                     .heads = n->heads,
                                     .head = n->head});
    rwkv_norm_heads(b, n, a[R7_OUTPUT]);
    threads_for(b->pool, n->heads, 1, rwkv_add_bonus,
                &(rwkv_rows){.b = b,
                             .n = n,
                             .x = a[R7_KEY],
                             .y = a[R7_VALUE],
                             .z = a[R7_OUTPUT],
                             .u = values[WEIGHT_TIME_MIX_R_K],
                             .w = a[R7_RECEPTANCE]});
}

static void rwkv7_blend(forward_batch *b, size_t i, const float *x, size_t stride, float *const *a) {
    const float *lerp = b->layer->values[WEIGHT_TIME_MIX_LERP_ALL] + i * b->model->sizes.width;
    rwkv_blend_rows(b, &(rwkv_blend){.x = x, .lerp = lerp, .y = a[R7_BLEND], .x_stride = stride});
}

/* Array i: a matrix times its blend. */
static bool rwkv7_apply(forward_batch *b, weight_slot s, size_t i, const float *x, size_t stride,
                        float *const *a) {
    rwkv7_blend(b, i, x, stride, a);
    return batch_apply(b, s, 0, a[R7_BLEND], b->stride, a[i], b->stride);
}

static bool rwkv7_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const rwkv_layer *l = p->numbers;
    size_t s = b->stride, d = b->model->sizes.width;
    float *a[RWKV7_ARRAYS];
    bool has_gate = b->layer->plan->weight[WEIGHT_TIME_MIX_G1];
    for (size_t i = 0; i < RWKV7_ARRAYS; i++) a[i] = b->work + i * d * s;
    float *low = a[RWKV7_ARRAYS - 1] + d * s, *blend = a[R7_BLEND], *decay = a[R7_DECAY];
    if (!rwkv7_apply(b, WEIGHT_TIME_MIX_RECEPTANCE, R7_RECEPTANCE, x, stride, a) ||
        !rwkv7_apply(b, WEIGHT_TIME_MIX_KEY, R7_KEY, x, stride, a) ||
        !rwkv7_apply(b, WEIGHT_TIME_MIX_VALUE, R7_VALUE, x, stride, a))
        return false;
    if (!l->is_first) {
        rwkv_multiply_low(b, WEIGHT_TIME_MIX_V1, WEIGHT_TIME_MIX_V2, WEIGHT_TIME_MIX_V0, LOW_PLAIN, blend,
                          low, a[R7_VALUE_SHARE]);
        batch_sigmoid_rows(b, a[R7_VALUE_SHARE], d);
    }
    rwkv7_mix_values(b, p, a[R7_VALUE], a[R7_VALUE_SHARE]);
    rwkv7_blend(b, R7_DECAY, x, stride, a);
    rwkv_multiply_low(b, WEIGHT_TIME_MIX_W1, WEIGHT_TIME_MIX_W2, WEIGHT_TIME_MIX_W0, LOW_TANH, blend, low,
                      decay);
    batch_sigmoid_rows(b, decay, d);
    for (size_t r = 0; r < d; r++)
        b->model->kernels->recurrence->decay(decay + r * s, decay + r * s, -0.606531F, b->tokens);
    rwkv7_blend(b, R7_RATE, x, stride, a);
    rwkv_multiply_low(b, WEIGHT_TIME_MIX_A1, WEIGHT_TIME_MIX_A2, WEIGHT_TIME_MIX_A0, LOW_PLAIN, blend, low,
                      a[R7_RATE]);
    batch_sigmoid_rows(b, a[R7_RATE], d);
    if (has_gate) {
        rwkv7_blend(b, R7_GATE, x, stride, a);
        rwkv_multiply_low(b, WEIGHT_TIME_MIX_G1, WEIGHT_TIME_MIX_G2, WEIGHT_SLOTS, LOW_SIGMOID, blend, low,
                          a[R7_GATE]);
    }
    rwkv7_recur(b, p, a);
    if (has_gate) batch_multiply_rows(b, batch_rows(b, a[R7_OUTPUT], d), a[R7_GATE], b->stride);
    return batch_apply(b, WEIGHT_TIME_MIX_OUTPUT, 0, a[R7_OUTPUT], s, b->output, s);
}

const sublayer_kind mixer_rwkv6 = {
    .model_bytes = sizeof(rwkv_numbers),
    .layer_bytes = sizeof(rwkv_layer),
    .read_keys = rwkv_read_keys,
    .find_tensors = rwkv6_find_tensors,
    .scratch_rows = rwkv6_count_rows,
    .lay_out = rwkv_lay_out,
    .run = rwkv6_run,
};
const sublayer_kind mixer_rwkv7 = {
    .model_bytes = sizeof(rwkv_numbers),
    .layer_bytes = sizeof(rwkv_layer),
    .read_keys = rwkv_read_keys,
    .find_tensors = rwkv7_find_tensors,
    .carried_rows = carries_hidden_state,
    .scratch_rows = rwkv7_count_rows,
    .lay_out = rwkv_lay_out,
    .run = rwkv7_run,
};
