/* The mixer of Mamba-1 (Gu and Dao 2023, arXiv:2312.00752), a state space with a decay per feature and
 * element of its state. ssm_in gives x, which passes a short convolution, and a gate z. From x, ssm_x makes a
 * step of low rank and the vectors B and C, which some models norm; ssm_dt makes each feature's step dt of
 * the former. A feature's state decays by the step, takes in dt x B and is read with C. */
#include "base/checked.h"
#include "forward/graph/layer.h"
#include "forward/graph/layer_part.h"
#include "forward/graph/recurrent/recurrent.h"

typedef struct mamba1_numbers {
    size_t taps;          /* tokens that a convolution sees */
    size_t inner, state;  /* features of x; of B and of C */
    size_t rank;          /* features that steps are made of */
    bool has_plain_norms; /* steps, B and C are normed without weights */
} mamba1_numbers;

static void mamba1_read_keys(forward_model *m, key_reader *r, model_part *p) {
    mamba1_numbers *n = p->numbers;
    (void)m;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->rank = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    if (!m->arch->graph.has[WEIGHT_SSM_B_NORM]) n->has_plain_norms = key_bool(r, "ssm.dt_b_c_rms", false);
}

static void mamba1_find_tensors(tensor_finder *f, const part_spec *p) {
    const mamba1_numbers *n = p->part->numbers;
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
static uint64_t mamba1_count_rows(const forward_model *, const layer_spec *, const part_spec *p) {
    const mamba1_numbers *n = p->part->numbers;
    return 3 * (uint64_t)n->inner + n->rank + 2 * (uint64_t)n->state;
}

static void mamba1_lay_out(forward_batch *b, const model_part *p, scratch *s) {
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

static bool mamba1_run(forward_batch *b, const part_spec *p, const float *x, size_t stride) {
    const mamba1_numbers *n = p->part->numbers;
    const forward_layer *layer = b->layer;
    size_t s = b->stride, rows = n->inner;
    float *value = b->work, *gate = value + rows * s, *rate = gate + rows * s, *low = rate + rows * s;
    mamba1_loop l = {b,
                     n,
                     batch_own(b, p->part),
                     value,
                     low + n->rank * s,
                     low + (n->rank + n->state) * s,
                     rate,
                     ceil_div(rows, STATE_COLUMNS)};
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, value, s)) return false;
    batch_convolve(b, &(convolved_rows){.x = value,
                                        .kernel = layer->values[WEIGHT_SSM_KERNEL],
                                        .bias = layer->bias_values[WEIGHT_SSM_KERNEL],
                                        .rows = rows,
                                        .taps = n->taps,
                                        .has_silu = true});
    if (!batch_apply(b, WEIGHT_SSM_X, 0, value, s, low, s)) return false;
    mamba1_norm_low(b, n, low);
    if (!batch_apply(b, WEIGHT_SSM_DT, 0, low, s, rate, s)) return false;
    batch_softplus_rows(b, rate, NULL, rows);
    threads_for(b->pool, b->n_spans * l.shares, 1, select_share, &l);
    batch_gate_states(b, gate, value, rows, false);
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->part, s);
}

const layer_part mixer_mamba1 = {
    .model_bytes = sizeof(mamba1_numbers),
    .read_keys = mamba1_read_keys,
    .find_tensors = mamba1_find_tensors,
    .scratch_rows = mamba1_count_rows,
    .lay_out = mamba1_lay_out,
    .run = mamba1_run,
};
