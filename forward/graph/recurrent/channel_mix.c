/* RWKV's feed-forward sublayer: channel_mix_value max(0, channel_mix_key k)^2, where k blends the input with that
 * of the previous token. In RWKV 6 the sigmoid of channel_mix_receptance, times a blend of its own, is a
 * factor. */
#include "forward/graph/recurrent/recurrent.h"

typedef struct channel_layer {
    size_t ff;
} channel_layer;

static void channel_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    channel_layer *l = p->numbers;
    presence is = f->m->arch->graph.has[WEIGHT_CHANNEL_MIX_RECEPTANCE];
    uint64_t d = f->m->sizes.width;
    l->ff = tensors_rows(f, WEIGHT_CHANNEL_MIX_KEY);
    tensors_take_weight(f, WEIGHT_CHANNEL_MIX_LERP_K, REQUIRED, SHAPE(d));
    tensors_take_weight(f, WEIGHT_CHANNEL_MIX_KEY, REQUIRED, SHAPE(d, l->ff));
    tensors_take_weight(f, WEIGHT_CHANNEL_MIX_VALUE, REQUIRED, SHAPE(l->ff, d));
    tensors_take_weight(f, WEIGHT_CHANNEL_MIX_LERP_R, is, SHAPE(d));
    tensors_take_weight(f, WEIGHT_CHANNEL_MIX_RECEPTANCE, is, SHAPE(d, d));
}

/* A blend, what the key gives, and the receptance. */
static uint64_t channel_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *p) {
    const channel_layer *l = p->numbers;
    return 2 * (uint64_t)m->sizes.width + l->ff;
}

static bool channel_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const channel_layer *l = p->numbers;
    const float *const *values = b->layer->values;
    size_t s = b->stride, d = b->model->sizes.width;
    float *blend = b->work, *receptance = blend + d * s, *middle = receptance + d * s;
    bool is_gated = b->layer->plan->weight[WEIGHT_CHANNEL_MIX_RECEPTANCE];
    rwkv_blend by = {.x = x, .lerp = values[WEIGHT_CHANNEL_MIX_LERP_R], .y = blend, .x_stride = stride};
    if (is_gated) {
        rwkv_blend_rows(b, &by);
        if (!batch_apply(b, WEIGHT_CHANNEL_MIX_RECEPTANCE, 0, blend, s, receptance, s)) return false;
        batch_sigmoid_rows(b, receptance, d);
    }
    by.lerp = values[WEIGHT_CHANNEL_MIX_LERP_K];
    rwkv_blend_rows(b, &by);
    if (!batch_apply(b, WEIGHT_CHANNEL_MIX_KEY, 0, blend, s, middle, s)) return false;
    batch_gate_rows(b, &(activation_rule){.act = ACT_RELU2}, batch_rows(b, middle, l->ff), NULL, 0);
    if (!batch_apply(b, WEIGHT_CHANNEL_MIX_VALUE, 0, middle, s, b->output, s)) return false;
    if (is_gated) batch_multiply_rows(b, batch_rows(b, b->output, d), receptance, b->stride);
    return true;
}

const sublayer_kind ffn_channel_mix = {
    .layer_bytes = sizeof(channel_layer),
    .find_tensors = channel_find_tensors,
    .scratch_rows = channel_count_rows,
    .run = channel_run,
};
