/* The mixer of Mamba-1 (Gu and Dao 2023, arXiv:2312.00752), a state space with a decay per feature and
 * element of its state. ssm_in gives x, which passes a short convolution, and a gate z. From x, ssm_x makes a
 * step of low rank and the vectors B and C, which some models norm; ssm_dt makes each feature's step dt of
 * the former. A feature's state decays by the step, takes in dt x B and is read with C. */

#include "forward/graph/recurrent/recurrent.h"

typedef struct mamba1_numbers {
    size_t taps;          /* tokens that a convolution sees */
    size_t inner, state;  /* features of x; of B and of C */
    size_t rank;          /* features that steps are made of */
    bool has_plain_norms; /* steps, B and C are normed without weights */
} mamba1_numbers;

static void mamba1_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    mamba1_numbers *n = p->numbers;
    (void)m;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->rank = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    if (!m->arch->graph.has[WEIGHT_SSM_B_NORM]) n->has_plain_norms = key_bool(r, "ssm.dt_b_c_rms", false);
}

static void mamba1_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const mamba1_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width, low = n->rank + 2 * (uint64_t)n->state;
    presence norms = f->m->arch->graph.has[WEIGHT_SSM_B_NORM];
    tensors_take_weight(f, WEIGHT_SSM_IN, REQUIRED, SHAPE(d, 2 * n->inner));
    tensors_take_biased(f, WEIGHT_SSM_KERNEL, REQUIRED, SHAPE(n->taps, n->inner), REQUIRED);
    tensors_take_weight(f, WEIGHT_SSM_X, REQUIRED, SHAPE(n->inner, low));
    tensors_take_weight(f, WEIGHT_SSM_DT_NORM, norms, SHAPE(n->rank));
    tensors_take_weight(f, WEIGHT_SSM_B_NORM, norms, SHAPE(n->state));
    tensors_take_weight(f, WEIGHT_SSM_C_NORM, norms, SHAPE(n->state));
    tensors_take_biased(f, WEIGHT_SSM_DT, REQUIRED, SHAPE(n->rank, n->inner), REQUIRED);
    tensors_take_weight(f, WEIGHT_SSM_A, REQUIRED, SHAPE(n->state, n->inner));
    tensors_take_weight(f, WEIGHT_SSM_D, REQUIRED, SHAPE(n->inner));
    tensors_take_weight(f, WEIGHT_SSM_OUT, REQUIRED, SHAPE(n->inner, d));
}

/* x and gates, what ssm_x gives, steps. */
static uint64_t mamba1_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const mamba1_numbers *n = p->sublayer->numbers;
    return 3 * (uint64_t)n->inner + n->rank + 2 * (uint64_t)n->state;
}

static void mamba1_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const mamba1_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, selection_floats(n->state));
}

static void mamba1_norm_low(forward_batch *b, const mamba1_numbers *n, float *low) {
    static const weight_slot slots[] = {WEIGHT_SSM_DT_NORM, WEIGHT_SSM_B_NORM, WEIGHT_SSM_C_NORM};
    size_t s = b->stride, features[] = {n->rank, n->state, n->state};
    if (!n->has_plain_norms && !b->layer->values[WEIGHT_SSM_DT_NORM]) return;
    for (int i = 0; i < 3; low += features[i++] * s)
        batch_norm_groups(b, b->layer->values[slots[i]], low, features[i], 1);
}

/* Places of the rows of a batch. */
typedef struct mamba1_loop {
    forward_batch *b;
    const mamba1_numbers *n;
    const recurrence_scratch *own;
    float *value, *key, *query, *rate;
    size_t shares; /* of the features */
} mamba1_loop;

static void select_share(void *data, size_t i, int thread) {
    const mamba1_loop *l = data;
    const mamba1_numbers *n = l->n;
    const float *const *values = l->b->layer->values;
    size_t s = l->b->stride, begin = l->b->spans[i / l->shares].first, first = i % l->shares * STATE_COLUMNS;
    l->b->model->kernels->recurrence->select(&(selection_task){
        .key = l->key + begin,
        .query = l->query + begin,
        .rate = l->rate + first * s + begin,
        .value = l->value + first * s + begin,
        .stride = s,
        .rows = n->state,
        .columns = n->inner - first < STATE_COLUMNS ? n->inner - first : STATE_COLUMNS,
        .tokens = l->b->spans[i / l->shares].tokens,
        .log_decay = values[WEIGHT_SSM_A] + first * n->state,
        .skip = values[WEIGHT_SSM_D] + first,
        .scratch = l->own->floats + (size_t)thread * l->own->each,
    });
}

static bool mamba1_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const mamba1_numbers *n = p->sublayer->numbers;
    size_t s = b->stride, rows = n->inner;
    float *value = b->work, *gate = value + rows * s, *rate = gate + rows * s, *low = rate + rows * s;
    mamba1_loop l = {b,
                     n,
                     batch_own(b, p->sublayer),
                     value,
                     low + n->rank * s,
                     low + (n->rank + n->state) * s,
                     rate,
                     ceil_div(rows, STATE_COLUMNS)};
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, value, s)) return false;
    batch_convolve(b, WEIGHT_SSM_KERNEL, value, rows, n->taps, CONVOLUTION_SILU);
    if (!batch_apply(b, WEIGHT_SSM_X, 0, value, s, low, s)) return false;
    mamba1_norm_low(b, n, low);
    if (!batch_apply(b, WEIGHT_SSM_DT, 0, low, s, rate, s)) return false;
    batch_softplus_rows(b, rate, NULL, rows);
    threads_for(b->pool, b->n_spans * l.shares, 1, select_share, &l);
    batch_gate_states(b, gate, value, rows, false);
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->output, s);
}

const sublayer_kind mixer_mamba1 = {
    .model_bytes = sizeof(mamba1_numbers),
    .read_keys = mamba1_read_keys,
    .find_tensors = mamba1_find_tensors,
    .scratch_rows = mamba1_count_rows,
    .lay_out = mamba1_lay_out,
    .run = mamba1_run,
};

/* ---- Mamba-2 ---- */

/* The mixer of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), a state space with a decay per head. ssm_in gives
 * a gate z, values x with the vectors B and C of each group, which pass a short convolution, and a step dt
 * per head. A head's state decays by the step, takes in dt B x^T and is read with C. What comes out is gated
 * and, where the layer has ssm_norm, normed per group. */

typedef struct mamba2_numbers {
    size_t taps;          /* tokens that a convolution sees */
    size_t inner, state;  /* features of x; of B and of C */
    size_t heads, groups; /* heads: a multiple of groups, which share B and C */
} mamba2_numbers;

/* Rows that pass the convolution: x, B and C. */
static uint64_t mamba2_convolved_rows(const mamba2_numbers *n) {
    return n->inner + 2 * (uint64_t)n->groups * n->state;
}

/* The heads of Mamba-2 and PLaMo 2 have equally many of the inner features. */
static void check_heads(key_reader *r, size_t inner, size_t heads) {
    if (inner % heads != 0)
        key_fail(r, "ssm.inner_size", "is %zu, expected a multiple of ssm.time_step_rank: %zu", inner, heads);
}

static void mamba2_read_keys(forward_model *, key_reader *r, model_sublayer *p) {
    mamba2_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->heads = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    n->groups = key_number_needed(r, "ssm.group_count", 1, MODEL_MOST);
    if (n->heads % n->groups != 0)
        key_fail(r, "ssm.time_step_rank", "is %zu, expected a multiple of ssm.group_count: %zu", n->heads,
                 n->groups);
    check_heads(r, n->inner, n->heads);
}

static void mamba2_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const mamba2_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width, convolved = mamba2_convolved_rows(n);
    presence norm = f->m->arch->graph.has[WEIGHT_SSM_NORM] == OPTIONAL ? OPTIONAL : REQUIRED;
    tensors_take_weight(f, WEIGHT_SSM_IN, REQUIRED, SHAPE(d, n->inner + convolved + n->heads));
    tensors_take_biased(f, WEIGHT_SSM_KERNEL, REQUIRED, SHAPE(n->taps, convolved), OPTIONAL);
    tensors_take_bias(f, WEIGHT_SSM_DT, REQUIRED, SHAPE(n->heads));
    tensors_take_weight(f, WEIGHT_SSM_A, REQUIRED, SHAPE(1, n->heads));
    tensors_take_weight(f, WEIGHT_SSM_D, REQUIRED, SHAPE(1, n->heads));
    tensors_take_weight(f, WEIGHT_SSM_NORM, norm, SHAPE(n->inner / n->groups, n->groups));
    tensors_take_weight(f, WEIGHT_SSM_OUT, REQUIRED, SHAPE(n->inner, d));
}

/* Rows of what ssm_in gives, and the heads' decays. */
static uint64_t mamba2_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const mamba2_numbers *n = p->sublayer->numbers;
    return n->inner + mamba2_convolved_rows(n) + 2 * (uint64_t)n->heads;
}

static void mamba2_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const mamba2_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->state));
}

static bool mamba2_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const mamba2_numbers *n = p->sublayer->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, rows = n->inner;
    float *gate = b->work, *value = gate + rows * s, *key = value + rows * s;
    float *query = key + n->groups * n->state * s, *rate = query + n->groups * n->state * s;
    float *decay = rate + n->heads * s;
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, gate, s)) return false;
    batch_convolve(b, WEIGHT_SSM_KERNEL, value, mamba2_convolved_rows(n), n->taps, CONVOLUTION_SILU);
    batch_softplus_rows(b, rate, b->layer->bias_values[WEIGHT_SSM_DT], n->heads);
    batch_decay_rows(b, decay, rate, values[WEIGHT_SSM_A], n->heads);
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = key,
                                   .query = query,
                                   .decay = decay,
                                   .rate = rate,
                                   .skip = values[WEIGHT_SSM_D],
                                   .value = value,
                                   .heads = n->heads,
                                   .key_heads = n->groups,
                                   .rows = n->state,
                                   .columns = n->inner / n->heads,
                                   .scale = 1,
                                   .is_grouped = true});
    batch_gate_states(b, gate, value, rows, false);
    if (values[WEIGHT_SSM_NORM])
        batch_norm(b, &(norm_groups){.y = gate,
                                     .weight = values[WEIGHT_SSM_NORM],
                                     .features = rows / n->groups,
                                     .groups = n->groups,
                                     .weight_stride = rows / n->groups});
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->output, s);
}

const sublayer_kind mixer_mamba2 = {
    .model_bytes = sizeof(mamba2_numbers),
    .read_keys = mamba2_read_keys,
    .find_tensors = mamba2_find_tensors,
    .scratch_rows = mamba2_count_rows,
    .lay_out = mamba2_lay_out,
    .run = mamba2_run,
};

/* ---- PLaMo 2 ---- */

/* The mixer of plamo2: Mamba-2's recurrence, with products of its own. ssm_in gives each head's gate and values,
 * of which the values pass a short convolution. ssm_x makes of them the vectors B and C that all heads share,
 * and a step of low rank, all of which are normed; ssm_dt makes each head's step of the latter. */

typedef struct plamo2_numbers {
    size_t taps;         /* tokens that a convolution sees */
    size_t inner, state; /* features of all heads' values; of B and of C */
    size_t heads, rank;  /* rank: features that steps are made of */
} plamo2_numbers;

static void plamo2_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    plamo2_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->heads = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    n->rank = m->sizes.width / 16 < 64 ? 64 : m->sizes.width / 16;
    check_heads(r, n->inner, n->heads);
}

static void plamo2_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const plamo2_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width;
    tensors_take_weight(f, WEIGHT_SSM_IN, REQUIRED, SHAPE(d, 2 * n->inner));
    tensors_take_weight(f, WEIGHT_SSM_KERNEL, REQUIRED, SHAPE(n->taps, n->inner));
    tensors_take_weight(f, WEIGHT_SSM_X, REQUIRED, SHAPE(n->inner, 2 * n->state + n->rank));
    tensors_take_weight(f, WEIGHT_SSM_B_NORM, REQUIRED, SHAPE(n->state));
    tensors_take_weight(f, WEIGHT_SSM_C_NORM, REQUIRED, SHAPE(n->state));
    tensors_take_weight(f, WEIGHT_SSM_DT_NORM, REQUIRED, SHAPE(n->rank));
    tensors_take_biased(f, WEIGHT_SSM_DT, REQUIRED, SHAPE(n->rank, n->heads), REQUIRED);
    tensors_take_weight(f, WEIGHT_SSM_A, REQUIRED, SHAPE(n->heads));
    tensors_take_weight(f, WEIGHT_SSM_D, REQUIRED, SHAPE(n->heads));
    tensors_take_weight(f, WEIGHT_SSM_OUT, REQUIRED, SHAPE(n->inner, d));
}

/* Gates and values sorted, what ssm_x gives, steps and decays; gates and values as ssm_in gives them. */
static uint64_t plamo2_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const plamo2_numbers *n = p->sublayer->numbers;
    return 4 * (uint64_t)n->inner + 2 * (uint64_t)n->state + n->rank + 2 * (uint64_t)n->heads;
}

static void plamo2_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const plamo2_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->state));
}

static bool plamo2_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const plamo2_numbers *n = p->sublayer->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, rows = n->inner, head = rows / n->heads;
    float *gate = b->work, *value = gate + rows * s, *key = value + rows * s, *query = key + n->state * s;
    float *step = query + n->state * s, *rate = step + n->rank * s, *decay = rate + n->heads * s;
    float *unsorted = decay + n->heads * s;
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, unsorted, s)) return false;
    batch_sort_rows(b, unsorted, gate, &(row_groups){n->heads, 2 * head, 0, head});
    batch_sort_rows(b, unsorted, value, &(row_groups){n->heads, 2 * head, head, head});
    batch_convolve(b, WEIGHT_SSM_KERNEL, value, rows, n->taps, CONVOLUTION_SILU);
    if (!batch_apply(b, WEIGHT_SSM_X, 0, value, s, key, s)) return false;
    batch_norm_slot(b, WEIGHT_SSM_B_NORM, key, s, n->state, key, s);
    batch_norm_slot(b, WEIGHT_SSM_C_NORM, query, s, n->state, query, s);
    batch_norm_slot(b, WEIGHT_SSM_DT_NORM, step, s, n->rank, step, s);
    if (!batch_apply(b, WEIGHT_SSM_DT, 0, step, s, rate, s)) return false;
    batch_softplus_rows(b, rate, NULL, n->heads);
    batch_decay_rows(b, decay, rate, values[WEIGHT_SSM_A], n->heads);
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = key,
                                   .query = query,
                                   .decay = decay,
                                   .rate = rate,
                                   .skip = values[WEIGHT_SSM_D],
                                   .value = value,
                                   .heads = n->heads,
                                   .key_heads = 1,
                                   .rows = n->state,
                                   .columns = head,
                                   .scale = 1});
    batch_gate_states(b, gate, value, rows, false);
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->output, s);
}

const sublayer_kind mixer_plamo2 = {
    .model_bytes = sizeof(plamo2_numbers),
    .read_keys = plamo2_read_keys,
    .find_tensors = plamo2_find_tensors,
    .scratch_rows = plamo2_count_rows,
    .lay_out = plamo2_lay_out,
    .run = plamo2_run,
};
