/* Inputs that each layer gets beside the residual stream: made once, when the tokens are embedded, and
 * carried to the layers. */
#include "forward/graph/residual/residual.h"

#include <math.h>
#include <string.h>

void layer_inputs_find(tensor_finder *f, layer_inputs *n) {
    const forward_model *m = f->m;
    uint64_t all = n->n * m->sizes.layers;
    if (!n->n) return;
    n->table = tensors_take(f, "per_layer_token_embd.weight", REQUIRED, SHAPE(all, m->sizes.vocabulary));
    n->matrix = tensors_take(f, "per_layer_model_proj.weight", REQUIRED, SHAPE(m->sizes.width, all));
    n->norm = tensors_take(f, "per_layer_proj_norm.weight", REQUIRED, SHAPE(n->n));
}

void layer_inputs_find_layer(tensor_finder *f, const layer_inputs *n) {
    uint64_t d = f->m->sizes.width;
    if (!n->n) return;
    tensors_take_weight(f, WEIGHT_INP_GATE, REQUIRED, SHAPE(d, n->n));
    tensors_take_weight(f, WEIGHT_PROJ, REQUIRED, SHAPE(n->n, d));
    tensors_take_weight(f, WEIGHT_POST_NORM, REQUIRED, SHAPE(d));
}

void layer_inputs_lay_out(const layer_inputs *n, layer_inputs_scratch *own, scratch *s) {
    if (!n->n) return;
    uint64_t rows = n->n * model_row_bytes(n->matrix), row = model_row_bytes(n->table);
    own->raw = scratch_take(s, rows > row ? rows : row, 1, 1);
    own->values = scratch_take(s, n->table->ne[0], 1, sizeof(float));
    own->weight = scratch_take(s, n->n, 1, sizeof(float));
}

/* One layer's share of what the matrix gives, normalized. */
static bool layer_inputs_project(forward_batch *b, const layer_inputs *n, const layer_inputs_scratch *own,
                                 size_t layer, const float *x, float *to, size_t stride) {
    const forward_model *m = b->model;
    uint64_t width = m->sizes.width, first = layer * n->n;
    matmul_weights w = {own->raw, n->matrix->type->id, n->n, width};
    if (!model_read(m->file, n->matrix, first * width, n->n * width, own->raw, b->e)) return false;
    matmul_run(b->products, &w, x, stride, to, stride, b->tokens);
    batch_scale(b, to, stride, n->n, 1 / sqrtf((float)width));
    batch_norm(b, &(norm_groups){.x = to,
                                 .y = to,
                                 .weight = own->weight,
                                 .x_stride = stride,
                                 .y_stride = stride,
                                 .features = n->n,
                                 .groups = 1});
    return true;
}

bool layer_inputs_embed(forward_batch *b, const layer_inputs *n, const layer_inputs_scratch *own,
                        const uint32_t *ids, const float *x, float *carried, size_t stride) {
    const forward_model *m = b->model;
    size_t all = n->n * m->sizes.layers;
    float root = sqrtf((float)n->n), half = sqrtf(.5f);
    if (!all) return true;
    if (!model_read_values(m, n->norm, own->raw, own->weight, b->e)) return false;
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (!layer_inputs_project(b, n, own, i, x, carried + i * n->n * stride, stride)) return false;
    for (size_t t = 0; t < b->tokens; t++) {
        if (!model_read_row(m, n->table, ids[t], own->raw, own->values, b->e)) return false;
        for (size_t c = 0; c < all; c++)
            carried[c * stride + t] = (carried[c * stride + t] + root * own->values[c]) * half;
    }
    return true;
}

bool layer_inputs_run(forward_batch *b, const layer_inputs *n, const float *e, const float *x,
                      size_t stride) {
    size_t width = b->model->sizes.width, s = b->stride;
    if (!batch_apply(b, WEIGHT_INP_GATE, 0, x, stride, b->work, s)) return false;
    batch_gate_rows(b, &b->layer->plan->act, batch_rows(b, b->work, n->n), e, b->residual_stride);
    if (!batch_apply(b, WEIGHT_PROJ, 0, b->work, s, b->part, s)) return false;
    batch_norm_slot(b, WEIGHT_POST_NORM, b->part, s, width, b->part, s);
    return true;
}
