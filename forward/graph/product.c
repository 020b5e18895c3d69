/* A mixer of one matrix, which stands in place of attention where it was found to do little: attn_output times the
 * input. Tokens do not see each other in it. */
#include "forward/graph/layer_part.h"

static void product_find_tensors(tensor_finder *f, const part_spec *) {
    uint64_t d = f->m->sizes.width;
    tensors_take_biased(f, WEIGHT_ATTN_OUTPUT, REQUIRED, SHAPE(d, d), UNUSED);
}

static bool product_run(forward_batch *b, const part_spec *, const float *x, size_t stride) {
    return batch_apply(b, WEIGHT_ATTN_OUTPUT, 0, x, stride, b->part, b->stride);
}

const layer_part mixer_product = {.find_tensors = product_find_tensors, .run = product_run};
