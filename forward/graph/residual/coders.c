#include "forward/graph/residual/residual.h"

#include <string.h>

coder_layer coder_layer_of(const forward_model *m, size_t layer) {
    size_t behind = layer - m->encoders;
    if (m->arch->graph.coders == CODERS_NONE) return (coder_layer){CODER_NONE, layer};
    if (layer < m->encoders) return (coder_layer){CODER_ENCODER, layer};
    return (coder_layer){behind % 2 ? CODER_CROSS : CODER_DECODER, behind / 2};
}

size_t forward_block_of(const forward_model *m, size_t layer) {
    return coder_layer_of(m, layer).block % m->sizes.blocks;
}

/* ---- setting up ---- */

void coders_read_keys(forward_model *m, key_reader *r, uint64_t blocks) {
    const char *key = "decoder_block_count";
    m->encoders = blocks;
    if (m->arch->graph.coders != CODERS_BOTH) return;
    uint64_t decoders = key_number(r, key, blocks, 1, MODEL_MOST);
    if (decoders > m->file->n_tensors)
        key_fail(r, key, "is %llu, but the model has only %llu tensors", (unsigned long long)decoders,
                 (unsigned long long)m->file->n_tensors);
    uint64_t bos = key_number(r, ":tokenizer.ggml.bos_token_id", 0, 0, UINT32_MAX);
    m->start_token = (uint32_t)key_number(r, "decoder_start_token_id", bos, 0, UINT32_MAX);
    if (r->ok) m->sizes.layers = m->sizes.blocks = blocks + 2 * decoders;
    m->sizes.halves = true;
}

void coders_choose_sublayers(forward_model *m) {
    for (size_t i = 0; i < m->sizes.layers; i++)
        if (coder_layer_of(m, i).kind == CODER_DECODER) m->layers[i].ffn = (sublayer_spec){.sublayer = NULL};
}

/* ---- halves of windows ---- */

/* Copies a half of each window, as many columns of `rows` rows, to where they stand side by side, or back. */
static void coders_move(const forward_batch *b, bool decodes, float *x, size_t stride, size_t context,
                        float *side, size_t side_stride, bool back) {
    size_t half = context / 2, bytes = half * sizeof *x;
    for (size_t r = 0; r < b->model->sizes.width; r++)
        for (size_t w = 0; w < b->windows; w++) {
            float *of_window = x + r * stride + w * context + (decodes ? half : 0),
                  *beside = side + r * side_stride + w * half;
            memcpy(back ? of_window : beside, back ? beside : of_window, bytes);
        }
}

static bool layer_decodes(const forward_batch *b, size_t layer) {
    return coder_layer_of(b->model, layer).kind != CODER_ENCODER;
}

/* Writes which tokens of the batch the columns of a half are. */
static const uint32_t *coders_list_tokens(const forward_batch *b, bool decodes, size_t context) {
    size_t half = context / 2;
    uint32_t *to = b->half_tokens[decodes];
    for (size_t w = 0; w < b->windows; w++)
        for (size_t i = 0; i < half; i++)
            to[w * half + i] = (uint32_t)(w * context + (decodes ? half : 0) + i);
    return to;
}

static void coders_set_context(forward_batch *b, size_t context) {
    b->context = context, b->tokens = b->windows * context;
    forward_batch_cut(b, NULL);
}

coder_half coders_enter(forward_batch *b, size_t layer, float **x, size_t *stride) {
    coder_half whole = {*x, *stride, b->context};
    bool decodes = layer_decodes(b, layer);
    coders_move(b, decodes, *x, *stride, b->context, b->half, b->stride, false);
    b->whole_context = b->context, b->token = coders_list_tokens(b, decodes, b->context);
    coders_set_context(b, b->context / 2);
    *x = b->half, *stride = b->stride;
    return whole;
}

void coders_leave(forward_batch *b, size_t layer, const coder_half *whole) {
    coders_move(b, layer_decodes(b, layer), whole->x, whole->stride, whole->context, b->half, b->stride,
                true);
    b->token = NULL;
    coders_set_context(b, whole->context);
}

void coders_read_encoder(forward_batch *b, float *y, size_t stride) {
    coders_move(b, false, b->residual, b->residual_stride, b->whole_context, y, stride, false);
    batch_norm_slot(b, WEIGHT_ENCODER_NORM, y, stride, b->model->sizes.width, y, stride);
}

bool coders_report_encoder(forward_batch *b, const float *x, size_t stride, const weight_slot *slots) {
    const uint32_t *own = b->token;
    b->token = coders_list_tokens(b, false, b->whole_context);
    bool ok = batch_report_inputs(b, x, stride, slots);
    b->token = own;
    return ok;
}

void coders_pick_decoder(forward_batch *b, forward_inputs *in) {
    size_t half = b->context / 2;
    coders_move(b, true, (float *)in->x, in->stride, b->context, b->half, b->stride, false);
    in->x = b->half, in->stride = b->stride, in->tokens = b->windows * half;
    in->token = coders_list_tokens(b, true, b->context);
}

uint32_t coders_id(const forward_batch *b, const uint32_t *ids, size_t token) {
    bool starts = b->model->sizes.halves && token % b->context == b->context / 2;
    return starts ? b->model->start_token : ids[token];
}
