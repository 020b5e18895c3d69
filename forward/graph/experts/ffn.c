/* The dense feed-forward sublayers: gated by two matrices or by one that holds both, or plain. */
#include <math.h>

#include "forward/graph/experts/experts.h"

/* A sublayer that runs this one (dflash.c) is gated. */
static arch_sublayer ffn_form(const sublayer_spec *p) {
    const sublayer_kind *kind = p->sublayer->kind;
    return kind == &ffn_plain ? FFN_PLAIN : kind == &ffn_fused ? FFN_FUSED : FFN_GATED;
}

static void ffn_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    presence bias = f->m->arch->graph.ffn_bias;
    arch_sublayer form = ffn_form(p);
    ffn_layer *l = p->numbers;
    uint64_t d = f->m->sizes.width, up = tensors_rows(f, WEIGHT_FFN_UP);
    l->ff = form == FFN_FUSED ? tensors_halved(up) : up;
    tensors_take_biased(f, WEIGHT_FFN_UP, REQUIRED, SHAPE(d, form == FFN_FUSED ? 2 * l->ff : up), bias);
    if (form == FFN_GATED) tensors_take_biased(f, WEIGHT_FFN_GATE, REQUIRED, SHAPE(d, up), bias);
    tensors_take_weight(f, WEIGHT_FFN_SUB_NORM, f->m->arch->graph.has[WEIGHT_FFN_SUB_NORM], SHAPE(l->ff));
    tensors_take_biased(f, WEIGHT_FFN_DOWN, REQUIRED, SHAPE(l->ff, d), bias);
}

/* Keeps what stands out of a token's values: x = max(0, x - (mean + SPARSE_DEVIATIONS standard deviations)),
 * of samples. So one value of twenty is left of normally distributed ones. */
#define SPARSE_DEVIATIONS 1.6448533535003662F

enum { SPARSE_TOKENS = 16 }; /* tokens whose sums are made at once, a line of the cache */

typedef struct sparse_columns {
    const forward_batch *b;
    float *x;
    size_t ff;
} sparse_columns;

static void sparse_some(void *data, size_t block, int) {
    const sparse_columns *a = data;
    size_t first = block * SPARSE_TOKENS, left = a->b->tokens - first, s = a->b->stride,
           n = left < SPARSE_TOKENS ? left : SPARSE_TOKENS;
    double mean[SPARSE_TOKENS] = {0}, squares[SPARSE_TOKENS] = {0};
    float *x = a->x + first, least[SPARSE_TOKENS];
    for (size_t r = 0; r < a->ff; r++)
        for (size_t t = 0; t < n; t++) mean[t] += (double)x[r * s + t];
    for (size_t t = 0; t < n; t++) mean[t] /= (double)a->ff;
    for (size_t r = 0; r < a->ff; r++)
        for (size_t t = 0; t < n; t++) {
            double d = (double)x[r * s + t] - mean[t];
            squares[t] += d * d;
        }
    for (size_t t = 0; t < n; t++)
        least[t] = (float)mean[t] +
                   SPARSE_DEVIATIONS * (float)sqrt(squares[t] / (a->ff > 1 ? (double)(a->ff - 1) : 1));
    for (size_t r = 0; r < a->ff; r++)
        for (size_t t = 0; t < n; t++) {
            float over = x[r * s + t] - least[t];
            x[r * s + t] = over > 0 ? over : 0;
        }
}

typedef struct ffn_middle {
    const float *x;
    size_t stride, ff;
    arch_sublayer form;
} ffn_middle;

/* b->work[ff]: ffn_down's input. */
static bool ffn_make_middle(forward_batch *b, void *data) {
    const ffn_middle *of = data;
    size_t s = b->stride, ff = of->ff;
    arch_sublayer form = of->form;
    float *first = b->work, *up = form == FFN_GATED ? first + ff * s : first;
    if (form == FFN_GATED) batch_multiply(b, WEIGHT_FFN_GATE, 0, of->x, of->stride, first, s, b->tokens);
    batch_multiply(b, WEIGHT_FFN_UP, 0, of->x, of->stride, up, s, b->tokens);
    if (b->layer->index < b->model->arch->graph.sparse_layers)
        threads_for(b->pool, (b->tokens + SPARSE_TOKENS - 1) / SPARSE_TOKENS, 1, sparse_some,
                    &(sparse_columns){b, first, ff});
    batch_gate_rows(b, &b->layer->plan->act, batch_rows(b, first, ff),
                    form == FFN_PLAIN ? NULL : first + ff * s, s);
    if (b->layer->plan->weight[WEIGHT_FFN_SUB_NORM])
        batch_norm_slot(b, WEIGHT_FFN_SUB_NORM, first, s, ff, first, s);
    return true;
}

static bool ffn_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const ffn_layer *l = p->numbers;
    size_t s = b->stride;
    const batch_values middle = {b->work, l->ff, s, b->tokens};
    return batch_report_inputs(b, x, stride, (weight_slot[]){WEIGHT_FFN_GATE, WEIGHT_FFN_UP, WEIGHT_SLOTS}) &&
           batch_make(b, WEIGHT_FFN_DOWN, 0, RESULT_INPUTS, &middle, ffn_make_middle,
                      &(ffn_middle){x, stride, l->ff, ffn_form(p)}) &&
           batch_apply(b, WEIGHT_FFN_DOWN, 0, b->work, s, b->output, s);
}

static uint64_t ffn_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const ffn_layer *l = p->numbers;
    return l->ff;
}

static uint64_t ffn_count_both_rows(const forward_model *m, const layer_spec *plan, const sublayer_spec *p) {
    return 2 * ffn_count_rows(m, plan, p);
}

/* All layers are gated or none: so a gate that one of them lacks is missed. */
static void ffn_choose_gated(const forward_model *m, key_reader *, bool *is_own) {
    bool has_gates = false;
    for (size_t i = 0; i < m->sizes.layers; i++)
        has_gates = has_gates || tensors_layer_has(m, i, WEIGHT_FFN_GATE);
    for (size_t i = 0; i < m->sizes.layers; i++) is_own[i] = has_gates;
}

static void ffn_choose_fused(const forward_model *m, key_reader *r, bool *is_own) {
    key_list ff = key_list_of(r, "feed_forward_length");
    for (size_t i = 0; i < m->sizes.layers; i++) {
        const model_tensor *up = tensors_layer_weight(m, i, WEIGHT_FFN_UP);
        is_own[i] = up && tensor_rows(up) > key_number_at(r, &ff, i, MODEL_MOST, 0, MODEL_MOST);
    }
}

const sublayer_kind ffn_gated = {.layer_bytes = sizeof(ffn_layer),
                                 .choose_layers = ffn_choose_gated,
                                 .find_tensors = ffn_find_tensors,
                                 .scratch_rows = ffn_count_both_rows,
                                 .run = ffn_run};
const sublayer_kind ffn_fused = {.layer_bytes = sizeof(ffn_layer),
                                 .choose_layers = ffn_choose_fused,
                                 .find_tensors = ffn_find_tensors,
                                 .scratch_rows = ffn_count_both_rows,
                                 .run = ffn_run};
const sublayer_kind ffn_plain = {.layer_bytes = sizeof(ffn_layer),
                                 .find_tensors = ffn_find_tensors,
                                 .scratch_rows = ffn_count_rows,
                                 .run = ffn_run};
