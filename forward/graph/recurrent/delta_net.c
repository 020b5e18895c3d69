/* The mixer of gated delta nets (Yang et al. 2024, arXiv:2412.06464). The input becomes queries, keys and
 * values, which pass a short convolution, and per value head a decay and a rate. A head's state decays at
 * each token, then moves towards giving the token's value for its key, by the rate; what the query finds
 * there is normed and gated. Older files of qwen3next hold the rows of queries, keys, values and gates side
 * by side per key head in one matrix; they are sorted first. */
#include <math.h>

#include "forward/graph/recurrent/recurrent.h"

typedef struct delta_numbers {
    size_t taps;                   /* tokens that a convolution sees */
    size_t key_heads, value_heads; /* value_heads: a multiple */
    size_t key, value;             /* features of a head: of keys and queries; of values */
} delta_numbers;

static uint64_t delta_query_rows(const delta_numbers *n) { return (uint64_t)n->key_heads * n->key; }
static uint64_t delta_value_rows(const delta_numbers *n) { return (uint64_t)n->value_heads * n->value; }

/* ---- keys and tensors ---- */

static void delta_read_keys(forward_model *, key_reader *r, model_sublayer *p) {
    delta_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->key = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->key_heads = key_number_needed(r, "ssm.group_count", 1, MODEL_MOST);
    n->value_heads = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    size_t inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->value = inner / n->value_heads;
    if (n->value_heads % n->key_heads != 0)
        key_fail(r, "ssm.time_step_rank", "is %zu, expected a multiple of ssm.group_count: %zu",
                 n->value_heads, n->key_heads);
    if (inner % n->value_heads != 0)
        key_fail(r, "ssm.inner_size", "is %zu, expected a multiple of ssm.time_step_rank: %zu", inner,
                 n->value_heads);
}

static void delta_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const delta_numbers *n = p->sublayer->numbers;
    const presence *has = f->m->arch->graph.has;
    uint64_t d = f->m->sizes.width, q = delta_query_rows(n), v = delta_value_rows(n), heads = n->value_heads;
    if (has[WEIGHT_SSM_IN] && tensors_layer_has(f->m, f->index, WEIGHT_SSM_IN)) {
        tensors_take_weight(f, WEIGHT_SSM_IN, REQUIRED, SHAPE(d, 2 * q + 2 * v));
    } else {
        tensors_take_weight(f, WEIGHT_ATTN_QKV, REQUIRED, SHAPE(d, 2 * q + v));
        tensors_take_weight(f, WEIGHT_ATTN_GATE, REQUIRED, SHAPE(d, v));
    }
    if (has[WEIGHT_SSM_BA]) {
        tensors_take_weight(f, WEIGHT_SSM_BA, REQUIRED, SHAPE(d, 2 * heads));
    } else {
        tensors_take_weight(f, WEIGHT_SSM_BETA, REQUIRED, SHAPE(d, heads));
        tensors_take_weight(f, WEIGHT_SSM_ALPHA, REQUIRED, SHAPE(d, heads));
    }
    tensors_take_weight(f, WEIGHT_SSM_KERNEL, REQUIRED, SHAPE(n->taps, 2 * q + v));
    tensors_take_bias(f, WEIGHT_SSM_DT, REQUIRED, SHAPE(heads));
    tensors_take_weight(f, WEIGHT_SSM_A, REQUIRED, SHAPE(heads));
    tensors_take_weight(f, WEIGHT_SSM_NORM, REQUIRED, SHAPE(n->value));
    tensors_take_weight(f, WEIGHT_SSM_OUT, REQUIRED, SHAPE(v, d));
}

/* Rows that have to be sorted, which lie behind all others. */
static uint64_t delta_unsorted_rows(const layer_spec *l, const delta_numbers *n) {
    uint64_t in = l->weight[WEIGHT_SSM_IN] ? 2 * (delta_query_rows(n) + delta_value_rows(n)) : 0;
    uint64_t rates = l->weight[WEIGHT_SSM_BA] ? 2 * (uint64_t)n->value_heads : 0;
    return in > rates ? in : rates;
}

/* Queries, keys, values, gates; rates and decays of each head. */
static uint64_t delta_count_rows(const forward_model *, const layer_spec *l, const sublayer_spec *p) {
    const delta_numbers *n = p->sublayer->numbers;
    return 2 * (delta_query_rows(n) + delta_value_rows(n)) + 2 * (uint64_t)n->value_heads +
           delta_unsorted_rows(l, n);
}

static void delta_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const delta_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->key));
}

/* ---- running ---- */

/* Places of the rows of a batch. */
typedef struct delta_rows {
    float *query, *key, *value, *gate, *rate, *decay, *unsorted;
} delta_rows;

static delta_rows delta_place_rows(const forward_batch *b, const delta_numbers *n) {
    size_t s = b->stride, q = delta_query_rows(n) * s, v = delta_value_rows(n) * s;
    delta_rows r = {.query = b->work};
    r.key = r.query + q, r.value = r.key + q, r.gate = r.value + v, r.rate = r.gate + v;
    r.decay = r.rate + n->value_heads * s, r.unsorted = r.decay + n->value_heads * s;
    return r;
}

static void delta_multiply(forward_batch *b, const delta_numbers *n, const delta_rows *r, const float *x,
                           size_t stride) {
    const model_tensor *const *weight = b->layer->plan->weight;
    size_t s = b->stride, groups = n->key_heads, k = n->key, shared = n->value_heads / groups;
    size_t v = shared * n->value, group = 2 * k + 2 * v;
    if (weight[WEIGHT_SSM_IN]) {
        batch_multiply(b, WEIGHT_SSM_IN, 0, x, stride, r->unsorted, s, b->tokens);
        batch_sort_rows(b, r->unsorted, r->query, &(row_groups){groups, group, 0, k});
        batch_sort_rows(b, r->unsorted, r->key, &(row_groups){groups, group, k, k});
        batch_sort_rows(b, r->unsorted, r->value, &(row_groups){groups, group, 2 * k, v});
        batch_sort_rows(b, r->unsorted, r->gate, &(row_groups){groups, group, 2 * k + v, v});
    } else {
        batch_multiply(b, WEIGHT_ATTN_QKV, 0, x, stride, r->query, s, b->tokens);
        batch_multiply(b, WEIGHT_ATTN_GATE, 0, x, stride, r->gate, s, b->tokens);
    }
    if (weight[WEIGHT_SSM_BA]) {
        batch_multiply(b, WEIGHT_SSM_BA, 0, x, stride, r->unsorted, s, b->tokens);
        batch_sort_rows(b, r->unsorted, r->rate, &(row_groups){groups, 2 * shared, 0, shared});
        batch_sort_rows(b, r->unsorted, r->decay, &(row_groups){groups, 2 * shared, shared, shared});
    } else {
        batch_multiply(b, WEIGHT_SSM_BETA, 0, x, stride, r->rate, s, b->tokens);
        batch_multiply(b, WEIGHT_SSM_ALPHA, 0, x, stride, r->decay, s, b->tokens);
    }
}

static bool delta_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const delta_numbers *n = p->sublayer->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, rows = delta_value_rows(n);
    delta_rows r = delta_place_rows(b, n);
    if (!batch_report_inputs(b, x, stride,
                             (weight_slot[]){WEIGHT_SSM_IN, WEIGHT_ATTN_QKV, WEIGHT_ATTN_GATE,
                                             WEIGHT_SSM_BETA, WEIGHT_SSM_ALPHA, WEIGHT_SSM_BA, WEIGHT_SLOTS}))
        return false;
    delta_multiply(b, n, &r, x, stride);
    batch_convolve(b, WEIGHT_SSM_KERNEL, r.query, 2 * delta_query_rows(n) + rows, n->taps, CONVOLUTION_SILU);
    batch_unit_groups(b, r.query, n->key, 2 * n->key_heads, 0); /* keys follow queries */
    batch_sigmoid_rows(b, r.rate, n->value_heads);
    batch_softplus_rows(b, r.decay, b->layer->bias_values[WEIGHT_SSM_DT], n->value_heads);
    batch_decay_rows(b, r.decay, r.decay, values[WEIGHT_SSM_A], n->value_heads);
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = r.key,
                                   .query = r.query,
                                   .decay = r.decay,
                                   .rate = r.rate,
                                   .value = r.value,
                                   .heads = n->value_heads,
                                   .key_heads = n->key_heads,
                                   .rows = n->key,
                                   .columns = n->value,
                                   .scale = (float)(1 / sqrt((double)n->key)),
                                   .is_delta = true,
                                   .is_grouped = b->layer->plan->weight[WEIGHT_SSM_BA]});
    batch_norm_groups(b, values[WEIGHT_SSM_NORM], r.value, n->value, n->value_heads);
    batch_gate_states(b, r.gate, r.value, rows, b->model->arch->graph.sigmoid_states);
    return batch_apply(b, WEIGHT_SSM_OUT, 0, r.gate, s, b->output, s);
}

const sublayer_kind mixer_delta_net = {
    .model_bytes = sizeof(delta_numbers),
    .choose_layers = recurrence_choose_layers,
    .read_keys = delta_read_keys,
    .find_tensors = delta_find_tensors,
    .scratch_rows = delta_count_rows,
    .lay_out = delta_lay_out,
    .run = delta_run,
};
