/* The mixer of plamo2: Mamba-2's recurrence, with products of its own. ssm_in gives each head's gate and
 * values, of which the values pass a short convolution. ssm_x makes of them the vectors B and C that all
 * heads share, and a step of low rank, all of which are normed; ssm_dt makes each head's step of the latter.
 */
#include "forward/graph/layer_part.h"
#include "forward/graph/recurrent/recurrent.h"

typedef struct plamo2_numbers {
    size_t taps;         /* tokens that a convolution sees */
    size_t inner, state; /* features of all heads' values; of B and of C */
    size_t heads, rank;  /* rank: features that steps are made of */
} plamo2_numbers;

static void plamo2_read_keys(forward_model *m, key_reader *r, model_part *p) {
    plamo2_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->inner = key_number_needed(r, "ssm.inner_size", 1, MODEL_MOST);
    n->state = key_number_needed(r, "ssm.state_size", 1, MODEL_MOST);
    n->heads = key_number_needed(r, "ssm.time_step_rank", 1, MODEL_MOST);
    n->rank = m->sizes.width / 16 < 64 ? 64 : m->sizes.width / 16;
    if (n->inner % n->heads != 0)
        key_fail(r, "ssm.inner_size", "is %zu, expected a multiple of ssm.time_step_rank: %zu", n->inner,
                 n->heads);
}

static void plamo2_find_tensors(tensor_finder *f, const part_spec *p) {
    const plamo2_numbers *n = p->part->numbers;
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
static uint64_t plamo2_count_rows(const forward_model *, const layer_spec *, const part_spec *p) {
    const plamo2_numbers *n = p->part->numbers;
    return 4 * (uint64_t)n->inner + 2 * (uint64_t)n->state + n->rank + 2 * (uint64_t)n->heads;
}

static void plamo2_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    const plamo2_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->state));
}

static bool plamo2_run(forward_batch *b, const part_spec *p, const float *x, size_t stride) {
    const plamo2_numbers *n = p->part->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, rows = n->inner, head = rows / n->heads;
    float *gate = b->work, *value = gate + rows * s, *key = value + rows * s, *query = key + n->state * s;
    float *step = query + n->state * s, *rate = step + n->rank * s, *decay = rate + n->heads * s;
    float *unsorted = decay + n->heads * s;
    if (!batch_apply(b, WEIGHT_SSM_IN, 0, x, stride, unsorted, s)) return false;
    batch_sort_rows(b, unsorted, gate, &(row_groups){n->heads, 2 * head, 0, head});
    batch_sort_rows(b, unsorted, value, &(row_groups){n->heads, 2 * head, head, head});
    batch_convolve(b, &(convolved_rows){.x = value,
                                        .kernel = values[WEIGHT_SSM_KERNEL],
                                        .rows = rows,
                                        .taps = n->taps,
                                        .has_silu = true});
    if (!batch_apply(b, WEIGHT_SSM_X, 0, value, s, key, s)) return false;
    batch_norm_slot(b, WEIGHT_SSM_B_NORM, key, s, n->state, key, s);
    batch_norm_slot(b, WEIGHT_SSM_C_NORM, query, s, n->state, query, s);
    batch_norm_slot(b, WEIGHT_SSM_DT_NORM, step, s, n->rank, step, s);
    if (!batch_apply(b, WEIGHT_SSM_DT, 0, step, s, rate, s)) return false;
    batch_softplus_rows(b, rate, NULL, n->heads);
    batch_decay_rows(b, decay, rate, values[WEIGHT_SSM_A], n->heads);
    batch_recur(b, batch_own(b, p->part),
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
    return batch_apply(b, WEIGHT_SSM_OUT, 0, gate, s, b->part, s);
}

const layer_part mixer_plamo2 = {
    .model_bytes = sizeof(plamo2_numbers),
    .read_keys = plamo2_read_keys,
    .find_tensors = plamo2_find_tensors,
    .scratch_rows = plamo2_count_rows,
    .lay_out = plamo2_lay_out,
    .run = plamo2_run,
};
