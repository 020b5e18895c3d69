/* The mixer of Kimi Delta Attention (KDA, Kimi Linear, arXiv:2510.26692): a delta net whose state decays by a
 * factor per row and not only per head. Queries, keys and values pass short convolutions of their own. Decays
 * and gates come from products of low rank, or from one matrix each; the files of a model say which. A decay
 * is e^(a softplus(f)) or, with a lower bound l, e^(l sigmoid(-a f)), where a is a number of the head; a
 * model may store it with the other sign. */
#include <math.h>

#include "forward/graph/recurrent/recurrent.h"

static void kda_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    kda_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "ssm.conv_kernel", 1, CONVOLUTION_TAPS);
    n->head = key_number_needed(r, "kda.head_dim", 1, MODEL_MOST);
    key_list heads = key_list_needed(r, "attention.head_count");
    for (size_t i = 0; i < m->sizes.layers && r->ok; i++) {
        kda_layer *l = model_layer_numbers(m, p, i);
        if (l) l->heads = key_number_at(r, &heads, i, 1, 1, MODEL_MOST);
    }
}

/* The matrix of a product from the width to `rows`, or two matrices with a head's features between them. */
static void kda_find_product(tensor_finder *f, weight_slot first, weight_slot second, uint64_t head,
                             uint64_t rows) {
    uint64_t d = f->m->sizes.width;
    bool is_low = tensors_layer_has(f->m, f->index, second) ||
                  (rows != head && tensors_rows(f, first) == head); /* then the second one is missing */
    tensors_take_weight(f, first, REQUIRED, SHAPE(d, is_low ? head : rows));
    if (is_low) tensors_take_weight(f, second, REQUIRED, SHAPE(head, rows));
}

static void kda_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    static const weight_slot in[] = {WEIGHT_ATTN_Q, WEIGHT_ATTN_K, WEIGHT_ATTN_V};
    static const weight_slot kernel[] = {WEIGHT_SSM_KERNEL_Q, WEIGHT_SSM_KERNEL_K, WEIGHT_SSM_KERNEL_V};
    const kda_numbers *n = p->sublayer->numbers;
    const kda_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width, rows = l->heads * n->head;
    for (int i = 0; i < 3; i++) {
        tensors_take_biased(f, in[i], REQUIRED, SHAPE(d, rows), f->m->arch->graph.qkv_bias);
        tensors_take_weight(f, kernel[i], REQUIRED, SHAPE(n->taps, 1, rows));
    }
    kda_find_product(f, WEIGHT_SSM_F_A, WEIGHT_SSM_F_B, n->head, rows);
    if (tensors_layer_has(f->m, f->index, WEIGHT_SSM_G))
        tensors_take_weight(f, WEIGHT_SSM_G, REQUIRED, SHAPE(d, rows));
    else
        kda_find_product(f, WEIGHT_SSM_G_A, WEIGHT_SSM_G_B, n->head, rows);
    tensors_take_weight(f, WEIGHT_SSM_BETA, REQUIRED, SHAPE(d, l->heads));
    tensors_take_bias(f, WEIGHT_SSM_DT, REQUIRED, SHAPE(rows));
    tensors_take_weight(f, WEIGHT_SSM_A, REQUIRED, n->is_flat ? SHAPE(l->heads) : SHAPE(1, l->heads));
    tensors_take_weight(f, WEIGHT_SSM_NORM, REQUIRED, SHAPE(n->head));
    tensors_take_weight(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(rows, d));
}

/* Queries, keys, values, decays, gates; rates; features between matrices of low rank. */
static uint64_t kda_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const kda_numbers *n = p->sublayer->numbers;
    const kda_layer *l = p->numbers;
    return 5 * (uint64_t)l->heads * n->head + l->heads + n->head;
}

static void kda_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    const kda_numbers *n = p->numbers;
    recurrence_take_scratch(b, p, s, recurrence_floats(n->head));
}

/* ---- running ---- */

/* y = first x, or second (first x), whose inputs are reported. */
static bool kda_multiply(forward_batch *b, weight_slot first, weight_slot second, const float *x,
                         size_t stride, float *low, float *y) {
    size_t s = b->stride;
    bool is_low = b->layer->plan->weight[second];
    batch_multiply(b, first, 0, x, stride, is_low ? low : y, s, b->tokens);
    if (!is_low) return true;
    return batch_apply(b, second, 0, low, s, y, s);
}

typedef struct kda_decays {
    const forward_batch *b;
    const kda_numbers *n;
    float *decay;
} kda_decays;

/* A row of decays from what the matrices gave. */
static void kda_decay_row(void *data, size_t r, int) {
    const kda_decays *d = data;
    const forward_batch *b = d->b;
    const element_kernels *k = b->model->elements;
    float *row = d->decay + r * b->stride, factor = b->layer->values[WEIGHT_SSM_A][r / d->n->head];
    k->add(row, b->layer->bias_values[WEIGHT_SSM_DT][r], b->tokens);
    if (d->n->has_bound) {
        k->scale(row, d->n->is_positive ? factor : -factor, b->tokens);
        k->sigmoid(row, b->tokens);
        factor = d->n->bound;
    } else {
        k->softplus(row, b->tokens);
    }
    b->model->kernels->recurrence->decay(row, row, factor, b->tokens);
}

/* Places of the rows of a batch. */
typedef struct kda_rows {
    float *query, *key, *value, *decay, *gate, *rate, *low;
} kda_rows;

static kda_rows kda_place_rows(const forward_batch *b, size_t rows, size_t heads) {
    size_t s = b->stride, each = rows * s;
    float *at = b->work;
    return (kda_rows){
        at, at + each, at + 2 * each, at + 3 * each, at + 4 * each, at + 5 * each, at + 5 * each + heads * s};
}

/* Products with the input; false as batch_report_inputs. */
static bool kda_multiply_in(forward_batch *b, const kda_rows *r, const float *x, size_t stride) {
    static const weight_slot in[] = {WEIGHT_ATTN_Q,  WEIGHT_ATTN_K,   WEIGHT_ATTN_V, WEIGHT_SSM_F_A,
                                     WEIGHT_SSM_G_A, WEIGHT_SSM_BETA, WEIGHT_SSM_G,  WEIGHT_SLOTS};
    size_t s = b->stride, tokens = b->tokens;
    if (!batch_report_inputs(b, x, stride, in)) return false;
    batch_multiply(b, WEIGHT_ATTN_Q, 0, x, stride, r->query, s, tokens);
    batch_multiply(b, WEIGHT_ATTN_K, 0, x, stride, r->key, s, tokens);
    batch_multiply(b, WEIGHT_ATTN_V, 0, x, stride, r->value, s, tokens);
    batch_multiply(b, WEIGHT_SSM_BETA, 0, x, stride, r->rate, s, tokens);
    if (!kda_multiply(b, WEIGHT_SSM_F_A, WEIGHT_SSM_F_B, x, stride, r->low, r->decay)) return false;
    if (!b->layer->plan->weight[WEIGHT_SSM_G])
        return kda_multiply(b, WEIGHT_SSM_G_A, WEIGHT_SSM_G_B, x, stride, r->low, r->gate);
    batch_multiply(b, WEIGHT_SSM_G, 0, x, stride, r->gate, s, tokens);
    return true;
}

static bool kda_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const kda_numbers *n = p->sublayer->numbers;
    const kda_layer *l = p->numbers;
    size_t s = b->stride, heads = l->heads, rows = heads * n->head;
    kda_rows r = kda_place_rows(b, rows, heads);
    if (!kda_multiply_in(b, &r, x, stride)) return false;
    batch_convolve(b, WEIGHT_SSM_KERNEL_Q, r.query, rows, n->taps, CONVOLUTION_SILU);
    batch_convolve(b, WEIGHT_SSM_KERNEL_K, r.key, rows, n->taps, CONVOLUTION_SILU);
    batch_convolve(b, WEIGHT_SSM_KERNEL_V, r.value, rows, n->taps, CONVOLUTION_SILU);
    batch_unit_groups(b, r.query, n->head, 2 * heads, n->unit_eps); /* keys follow queries */
    batch_sigmoid_rows(b, r.rate, heads);
    threads_for(b->pool, rows, THREADS_EVEN, kda_decay_row, &(kda_decays){b, n, r.decay});
    batch_recur(b, batch_own(b, p->sublayer),
                &(recurrent_heads){.key = r.key,
                                   .query = r.query,
                                   .decay = r.decay,
                                   .rate = r.rate,
                                   .value = r.value,
                                   .heads = heads,
                                   .key_heads = heads,
                                   .rows = n->head,
                                   .columns = n->head,
                                   .scale = (float)(1 / sqrt((double)n->head)),
                                   .has_decays = true,
                                   .is_delta = true});
    batch_norm_groups(b, b->layer->values[WEIGHT_SSM_NORM], r.value, n->head, heads);
    batch_gate_states(b, r.gate, r.value, rows, true);
    return batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, r.gate, s, b->output, s);
}

const sublayer_kind mixer_kda = {
    .model_bytes = sizeof(kda_numbers),
    .layer_bytes = sizeof(kda_layer),
    .read_keys = kda_read_keys,
    .find_tensors = kda_find_tensors,
    .scratch_rows = kda_count_rows,
    .lay_out = kda_lay_out,
    .run = kda_run,
};
