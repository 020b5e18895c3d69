/* Tails: they change the residual stream behind both parts of a layer.
 *
 * tail_scale multiplies it by a number of the layer, where it has one.
 *
 * tail_embedding adds what was embedded, times a number of the layer, so it is carried through all layers.
 * Such layers may have numbers for the results of both parts, too (block.c).
 *
 * tail_per_layer has inputs of each layer's own (residual.h). Behind its feed-forward part a layer adds what
 * they let through, and the residual stream is multiplied by layer_output_scale where the layer has one. */
#include <string.h>

#include "forward/graph/residual/residual.h"

/* ---- a number of the layer ---- */

static void scale_find_tensors(tensor_finder *f, const part_spec *) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, f->m->arch->graph.has[WEIGHT_LAYER_OUTPUT_SCALE],
                        SHAPE(1));
}

static bool scale_run(forward_batch *b, const part_spec *, const float *, size_t stride) {
    const float *scale = b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE];
    if (scale) batch_scale(b, b->residual, stride, b->model->sizes.width, *scale);
    return true;
}

const layer_part tail_scale = {.find_tensors = scale_find_tensors, .run = scale_run};

/* ---- what was embedded ---- */

static void embedding_find_tensors(tensor_finder *f, const part_spec *) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, REQUIRED, SHAPE(1));
    tensors_take_weight(f, WEIGHT_MIXER_GAIN, OPTIONAL, SHAPE(1));
    tensors_take_weight(f, WEIGHT_FFN_GAIN, OPTIONAL, SHAPE(1));
}

static bool embedding_run(forward_batch *b, const part_spec *p, const float *, size_t stride) {
    batch_add(b, b->residual, stride, batch_carried(b, p->part), stride, b->model->sizes.width,
              *b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE]);
    return true;
}

const layer_part tail_embedding = {
    .find_tensors = embedding_find_tensors,
    .carried_rows = carries_hidden_state,
    .embed = carries_embedding,
    .run = embedding_run,
};

/* ---- inputs of each layer's own ---- */

static void tail_read_keys(forward_model *, key_reader *r, model_part *p) {
    layer_inputs *n = p->numbers;
    n->n = key_number_needed(r, "embedding_length_per_layer_input", 0, 1 << 20);
}

static void tail_find_model_tensors(tensor_finder *f, model_part *p) { layer_inputs_find(f, p->numbers); }

static void tail_find_tensors(tensor_finder *f, const part_spec *p) {
    tensors_take_weight(f, WEIGHT_LAYER_OUTPUT_SCALE, OPTIONAL, SHAPE(1));
    layer_inputs_find_layer(f, p->part->numbers);
}

static uint64_t tail_carried_rows(const forward_model *m, const model_part *p, size_t) {
    const layer_inputs *n = p->numbers;
    return n->n * m->sizes.layers;
}

static uint64_t tail_count_rows(const forward_model *, const layer_spec *, const part_spec *p) {
    const layer_inputs *n = p->part->numbers;
    return n->n;
}

static void tail_lay_out(forward_batch *b, const model_part *p, scratch *s) {
    layer_inputs_scratch *own = batch_own(b, p);
    _Static_assert(sizeof *own <= sizeof b->own->bytes, "BATCH_OWN_BYTES");
    layer_inputs_lay_out(p->numbers, own, s);
}

static bool tail_embed(forward_batch *b, const model_part *p, const uint32_t *ids, const float *x,
                       float *carried, size_t stride) {
    return layer_inputs_embed(b, p->numbers, batch_own(b, p), ids, x, carried, stride);
}

static bool tail_run(forward_batch *b, const part_spec *p, const float *x, size_t stride) {
    const layer_inputs *n = p->part->numbers;
    const float *scale = b->layer->values[WEIGHT_LAYER_OUTPUT_SCALE];
    size_t width = b->model->sizes.width;
    if (n->n) {
        if (!layer_inputs_run(b, n, batch_carried(b, p->part) + b->layer->index * n->n * stride, x, stride))
            return false;
        batch_add(b, b->residual, stride, b->part, b->stride, width, 1);
    }
    if (scale) batch_scale(b, b->residual, stride, width, *scale);
    return true;
}

const layer_part tail_per_layer = {
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
