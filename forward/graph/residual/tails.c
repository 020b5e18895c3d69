/* Tails: they change the residual stream behind both sublayers of a layer.
 *
 * tail_scale multiplies it by a number of the layer, where it has one.
 *
 * tail_embedding adds what was embedded, times a number of the layer, so it is carried through all layers.
 * Such layers may have numbers for the results of both sublayers, too (block.c).
 *
 * tail_per_layer has inputs of each layer's own (residual.h). Behind its feed-forward sublayer a layer adds what
 * they let through, and the residual stream is multiplied by layer_output_scale where the layer has one. */
#include <math.h>

#include "forward/graph/residual/residual.h"

/* ---- a number of the layer ---- */

static void scale_find_tensors(tensor_finder *f, const sublayer_spec *) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, f->m->arch->graph.has[WEIGHT_LAYER_OUTPUT_SCALE],
                        SHAPE(1));
}

static bool scale_run(forward_batch *b, const sublayer_spec *, const float *, size_t stride) {
    const float *scale = b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE];
    if (scale) batch_scale(b, b->residual, stride, b->model->sizes.width, *scale);
    return true;
}

const sublayer_kind tail_scale = {.find_tensors = scale_find_tensors, .run = scale_run};

/* ---- what was embedded ---- */

static void embedding_find_tensors(tensor_finder *f, const sublayer_spec *) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, REQUIRED, SHAPE(1));
    tensors_take_weight(f, WEIGHT_MIXER_GAIN, OPTIONAL, SHAPE(1));
    tensors_take_weight(f, WEIGHT_FFN_GAIN, OPTIONAL, SHAPE(1));
}

static bool embedding_run(forward_batch *b, const sublayer_spec *p, const float *, size_t stride) {
    batch_add(b, b->residual, stride, batch_carried(b, p->sublayer), stride, b->model->sizes.width,
              *b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE]);
    return true;
}

const sublayer_kind tail_embedding = {
    .find_tensors = embedding_find_tensors,
    .carried_rows = carries_hidden_state,
    .embed = carries_embedding,
    .run = embedding_run,
};

/* ---- inputs of each layer: made once, when the tokens are embedded ---- */

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
    batch_norm(b, &(norm_groups){.y = to, .weight = own->weight, .y_stride = stride, .features = n->n});
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
    if (!batch_apply(b, WEIGHT_PROJ, 0, b->work, s, b->output, s)) return false;
    batch_norm_slot(b, WEIGHT_POST_NORM, b->output, s, width, b->output, s);
    return true;
}

/* ---- inputs of each layer's own ---- */

static void tail_read_keys(forward_model *, key_reader *r, model_sublayer *p) {
    layer_inputs *n = p->numbers;
    n->n = key_number_needed(r, "embedding_length_per_layer_input", 0, 1 << 20);
}

static void tail_find_model_tensors(tensor_finder *f, model_sublayer *p) { layer_inputs_find(f, p->numbers); }

static void tail_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, OPTIONAL, SHAPE(1));
    layer_inputs_find_layer(f, p->sublayer->numbers);
}

static uint64_t tail_carried_rows(const forward_model *m, const model_sublayer *p, size_t) {
    const layer_inputs *n = p->numbers;
    return n->n * m->sizes.layers;
}

static uint64_t tail_count_rows(const forward_model *, const layer_spec *, const sublayer_spec *p) {
    const layer_inputs *n = p->sublayer->numbers;
    return n->n;
}

static void tail_lay_out(forward_batch *b, const model_sublayer *p, scratch *s) {
    layer_inputs_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    layer_inputs_lay_out(p->numbers, own, s);
}

static bool tail_embed(forward_batch *b, const model_sublayer *p, const uint32_t *ids, const float *x,
                       float *carried, size_t stride) {
    return layer_inputs_embed(b, p->numbers, batch_own(b, p), ids, x, carried, stride);
}

static bool tail_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const layer_inputs *n = p->sublayer->numbers;
    const float *scale = b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE];
    size_t width = b->model->sizes.width;
    if (n->n) {
        if (!layer_inputs_run(b, n, batch_carried(b, p->sublayer) + b->layer->index * n->n * stride, x,
                              stride))
            return false;
        batch_add(b, b->residual, stride, b->output, b->stride, width, 1);
    }
    if (scale) batch_scale(b, b->residual, stride, width, *scale);
    return true;
}

const sublayer_kind tail_per_layer = {
    .model_bytes = sizeof(layer_inputs),
    .read_keys = tail_read_keys,
    .find_model_tensors = tail_find_model_tensors,
    .find_tensors = tail_find_tensors,
    .carried_rows = tail_carried_rows,
    .embed = tail_embed,
    .scratch_rows = tail_count_rows,
    .lay_out = tail_lay_out,
    .run = tail_run,
};
