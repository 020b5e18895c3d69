/* The mixer of Mamba-2 (Dao and Gu 2024, arXiv:2405.21060), a state space with a decay per head. ssm_in gives
 * a gate z, values x with the vectors B and C of each group, which pass a short convolution, and a step dt
 * per head. A head's state decays by the step, takes in dt B x^T and is read with C. What comes out is gated
 * and, where the layer has ssm_norm, normed per group. */
#include "forward/graph/layer_part.h"
#include "forward/graph/recurrent/recurrent.h"

typedef struct mamba2_numbers {
    size_t taps;          /* tokens that a convolution sees */
    size_t inner, state;  /* features of x; of B and of C */
    size_t heads, groups; /* heads: a multiple of groups, which share B and C */
} mamba2_numbers;

/* Rows that pass the convolution: x, B and C. */
static uint64_t mamba2_convolved_rows(const mamba2_numbers *n) {
    return n->inner + 2 * (uint64_t)n->groups * n->state;
}

static void mamba2_read_keys(forward_model *, key_reader *r, model_part *p) {
    mamba2_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->heads = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    n->groups = key_number_needed(r, "ssm.group_count", 1, MODEL_MOST);
    if (n->heads % n->groups != 0)
        key_fail(r, "ssm.time_step_rank", "is %zu, expected a multiple of ssm.group_count: %zu", n->heads,
                 n->groups);
    if (n->inner % n->heads != 0)
        key_fail(r, "ssm.inner_size", "is %zu, expected a multiple of ssm.time_step_rank: %zu", n->inner,
                 n->heads);
}

static void mamba2_find_tensors(tensor_finder *f, const part_spec *p) {
    const mamba2_numbers *n = p->part->numbers;
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
static uint64_t mamba2_count_rows(const forward_model *, const layer_spec *, const part_spec *p) {
    const mamba2_numbers *n = p->part->numbers;
    return n->inner + mamba2_convolved_rows(n) + 2 * (uint64_t)n->heads;
}

static void mamba2_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    const mamba2_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->state));
}

static bool mamba2_run(forward_batch *b, const part_spec *p, const float *x, size_t stride) {
    const mamba2_numbers *n = p->part->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, rows = n->inner;
    float *gate = b->work, *value = gate + rows * s, *key = value + rows * s;
    float *query = key + n->groups * n->state * s, *rate = query + n->groups * n->state * s;
    float *decay = rate + n->heads * s;
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, gate, s)) return false;
    batch_convolve(b, &(convolved_rows){.x = value,
                                        .kernel = values[WEIGHT_SSM_KERNEL],
                                        .bias = b->layer->bias_values[WEIGHT_SSM_KERNEL],
                                        .rows = mamba2_convolved_rows(n),
                                        .taps = n->taps,
                                        .has_silu = true});
    batch_softplus_rows(b, rate, b->layer->bias_values[WEIGHT_SSM_DT], n->heads);
    batch_decay_rows(b, decay, rate, values[WEIGHT_SSM_A], n->heads);
    batch_recur(b, batch_own(b, p->part),
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
        batch_norm(b, &(norm_groups){.x = gate,
                                     .y = gate,
                                     .weight = values[WEIGHT_SSM_NORM],
                                     .x_stride = s,
                                     .y_stride = s,
                                     .features = rows / n->groups,
                                     .groups = n->groups,
                                     .weight_step = rows / n->groups});
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->part, s);
}

const layer_part mixer_mamba2 = {
    .model_bytes = sizeof(mamba2_numbers),
    .read_keys = mamba2_read_keys,
    .find_tensors = mamba2_find_tensors,
    .scratch_rows = mamba2_count_rows,
    .lay_out = mamba2_lay_out,
    .run = mamba2_run,
};
