#include "codec/feedback.h"

enum { ARRAYS = 5, STRIP_ARRAYS = 2 }; /* of struct pass in simd/feedback.c */

uint64_t feedback_bytes(const kernels *k, uint32_t type, size_t columns) {
    const codec_steps *s = k->codecs[type].steps;
    uint64_t per_state = (s->state_bytes + 63) / 64 * 64, lanes = k->lanes, bytes;
    if (columns > UINT32_MAX) return UINT64_MAX;
    bytes = sizeof(float) * FEEDBACK_ROWS * (uint64_t)feedback_padded(columns) * ARRAYS;
    bytes += sizeof(float) * FEEDBACK_ROWS * FEEDBACK_STRIP * STRIP_ARRAYS;
    return bytes + FEEDBACK_ROWS / lanes * (columns / gguf_type_of(type)->block_elements) * per_state;
}

void codec_feedback(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                    feedback_sums *sums) {
    t->kernels->feedback(t, x, rows, blocks, sums);
}
