/* The mixer of short convolutions: (gate, factor, x) = shortconv.in_proj n, and what it gives is
 * shortconv.out_proj (factor * conv(gate * x)), where a channel's convolution sees the last few tokens of its
 * window, or where attention sees to both sides as many before it as behind it. */

#include "forward/graph/recurrent/recurrent.h"

typedef struct shortconv_numbers {
    size_t taps; /* tokens that a convolution sees */
} shortconv_numbers;

static void shortconv_read_keys(forward_model *m, key_reader *r, model_sublayer *p) {
    shortconv_numbers *n = p->numbers;
    n->taps = key_number_needed(r, "shortconv.l_cache", 1, CONVOLUTION_TAPS);
    if (m->both_ways && n->taps % 2 == 0)
        key_fail(r, "shortconv.l_cache", "is %zu, expected an odd number, as tokens see both sides", n->taps);
}

static void shortconv_find_tensors(tensor_finder *f, const sublayer_spec *p) {
    const shortconv_numbers *n = p->sublayer->numbers;
    uint64_t d = f->m->sizes.width;
    tensors_take_weight(f, WEIGHT_SHORTCONV_IN, REQUIRED, SHAPE(d, 3 * d));
    tensors_take_weight(f, WEIGHT_SHORTCONV_KERNEL, REQUIRED, SHAPE(n->taps, d));
    tensors_take_weight(f, WEIGHT_SHORTCONV_OUT, REQUIRED, SHAPE(d, d));
}

static uint64_t shortconv_count_rows(const forward_model *m, const layer_spec *, const sublayer_spec *) {
    return 3 * (uint64_t)m->sizes.width;
}

static bool shortconv_run(forward_batch *b, const sublayer_spec *p, const float *x, size_t stride) {
    const shortconv_numbers *n = p->sublayer->numbers;
    size_t s = b->stride, d = b->model->sizes.width;
    float *gate = b->work, *factor = gate + d * s, *in = factor + d * s;
    if (!batch_apply(b, WEIGHT_SHORTCONV_IN, 0, x, stride, gate, s)) return false;
    batch_multiply_rows(b, batch_rows(b, in, d), gate, b->stride);
    batch_convolve(b, WEIGHT_SHORTCONV_KERNEL, in, d, n->taps,
                   b->model->both_ways ? CONVOLUTION_CENTERED : CONVOLUTION_PLAIN);
    batch_multiply_rows(b, batch_rows(b, in, d), factor, b->stride);
    return batch_apply(b, WEIGHT_SHORTCONV_OUT, 0, in, s, b->output, s);
}

const sublayer_kind mixer_shortconv = {
    .model_bytes = sizeof(shortconv_numbers),
    .read_keys = shortconv_read_keys,
    .find_tensors = shortconv_find_tensors,
    .scratch_rows = shortconv_count_rows,
    .run = shortconv_run,
};

/* ---- one matrix ---- */

/* A mixer of one matrix, which stands in place of attention where it was found to do little: attn_output times the
 * input. Tokens do not see each other in it. */

static void product_find_tensors(tensor_finder *f, const sublayer_spec *) {
    uint64_t d = f->m->sizes.width;
    tensors_take_biased(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(d, d), UNUSED);
}

static bool product_run(forward_batch *b, const sublayer_spec *, const float *x, size_t stride) {
    return batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, x, stride, b->output, b->stride);
}

const sublayer_kind mixer_product = {.find_tensors = product_find_tensors, .run = product_run};
