/* The mixer of lightning attention (Qin et al. 2024, arXiv:2401.04658): linear attention whose decay is a
 * constant of the head and of the layer. attn_qkv gives each head its query, key and value side by side, and
 * all of them pass SiLU. A head's state decays at each token, then takes in the product of key and value; the
 * query reads it. What all heads give is normed together and multiplied by the sigmoid of a gate.
 *
 * The decay of head h of n is e^-(a^(h + 1) s), a = 2^(-8 / n), where s falls from 1 in the first layer to
 * nearly 0 in the last. */
#include <math.h>

#include "forward/graph/recurrent/recurrent.h"

typedef struct lightning_numbers {
    size_t heads, head; /* head: features of a query, a key, a value */
} lightning_numbers;

static uint64_t lightning_rows(const lightning_numbers *n) { return (uint64_t)n->heads * n->head; }

static void lightning_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    lightning_numbers *n = p->numbers;
    n->heads = key_number_needed(r, "attention.head_count", 1, MODEL_MOST);
    n->head = key_number(r, "attention.key_length", m->sizes.width / n->heads, 1, MODEL_MOST);
}

static void lightning_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const lightning_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width, rows = lightning_rows(n);
    tensors_take_weight(f, WEIGHT_ATTN_QKV, REQUIRED, SHAPE(d, 3 * rows));
    tensors_take_weight(f, WEIGHT_ATTN_GATE, REQUIRED, SHAPE(d, rows));
    tensors_take_weight(f, WEIGHT_ATTN_NORM_2, REQUIRED, SHAPE(rows));
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(rows, d));
}

/* Rows for the output of attn_qkv, sorted into queries, keys and values, whose unsorted rows the gate reuses,
 * and for rates and decays of each head. */
static uint64_t lightning_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const lightning_numbers *n = p->sublayer->numbers;
    return 6 * lightning_rows(n) + 2 * (uint64_t)n->heads;
}

static void lightning_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const lightning_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->head));
}

/* Fills the rows of rates with 1, and those of decays. */
static void lightning_fill_rates(const forward_batch *b, const lightning_numbers *n, float *rate,
                                 float *decay) {
    size_t last = b->model->sizes.layers - 1;
    double share = 1 + 1e-5 - (last ? (double)b->layer->index / (double)last : 0),
           step = -8.0 / (double)n->heads;
    for (size_t h = 0; h < n->heads; h++) {
        float d = (float)exp(-share * exp2(step * (double)(h + 1)));
        for (size_t t = 0; t < b->tokens; t++) rate[h * b->stride + t] = 1, decay[h * b->stride + t] = d;
    }
}

static bool lightning_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const lightning_numbers *n = p->sublayer->numbers;
    size_t s = b->stride, rows = lightning_rows(n), head = n->head;
    float *query = b->work, *key = query + rows * s, *value = key + rows * s, *unsorted = value + rows * s;
    float *rate = unsorted + 3 * rows * s, *decay = rate + n->heads * s;
    if (!batch_report_inputs(b, x, stride, (weight_slot[]){WEIGHT_ATTN_QKV, WEIGHT_ATTN_GATE, WEIGHT_SLOTS}))
        return false;
    batch_multiply(b, WEIGHT_ATTN_QKV, 0, x, stride, unsorted, s, b->tokens);
    batch_gate_rows(b, &(activation_rule){.act = ACT_SILU}, batch_rows(b, unsorted, 3 * rows), NULL, 0);
    batch_sort_rows(b, unsorted, query, &(row_groups){n->heads, 3 * head, 0, head});
    batch_sort_rows(b, unsorted, key, &(row_groups){n->heads, 3 * head, head, head});
    batch_sort_rows(b, unsorted, value, &(row_groups){n->heads, 3 * head, 2 * head, head});
    lightning_fill_rates(b, n, rate, decay);
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = key,
                                   .query = query,
                                   .decay = decay,
                                   .rate = rate,
                                   .value = value,
                                   .heads = n->heads,
                                   .key_heads = n->heads,
                                   .rows = head,
                                   .columns = head,
                                   .scale = 1});
    batch_norm_slot(b, WEIGHT_ATTN_NORM_2, value, s, rows, value, s);
    batch_multiply(b, WEIGHT_ATTN_GATE, 0, x, stride, query, s, b->tokens);
    batch_gate_states(b, query, value, rows, true);
    return batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, query, s, b->output, s);
}

const sublayer_kind mixer_lightning = {
    .model_bytes = sizeof(lightning_numbers),
    .choose_layers = recurrence_choose_layers,
    .read_keys = lightning_read_keys,
    .find_tensors = lightning_find_tensors,
    .scratch_rows = lightning_count_rows,
    .lay_out = lightning_lay_out,
    .run = lightning_run,
};
