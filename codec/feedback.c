#include "codec/feedback_scratch.h"

uint64_t feedback_bytes(const kernels *k, uint32_t type, size_t columns, matmul_arithmetic arithmetic) {
    if (columns > UINT32_MAX) return UINT64_MAX;
    uint64_t blocks = columns / gguf_type_of(type)->block_elements;
    uint64_t parts = arithmetic == MATMUL_BF16 ? kernels_bf16(k)->bytes * feedback_parts(columns) : 0;
    return sizeof(float) * feedback_floats(columns) + parts +
           FEEDBACK_ROWS / k->lanes * blocks * feedback_state_bytes(k->codecs[type].steps);
}

uint64_t feedback_most_bytes(size_t columns, matmul_arithmetic arithmetic) {
    if (columns > UINT32_MAX) return UINT64_MAX;
    uint64_t parts = arithmetic == MATMUL_BF16 ? sizeof(float) * feedback_parts(columns) : 0;
    return sizeof(float) * feedback_floats(columns) + parts +
           (uint64_t)FEEDBACK_STATE_BYTES * FEEDBACK_ROWS * columns;
}

void codec_feedback(const feedback_task *t, const float *x, size_t rows, uint8_t *blocks,
                    feedback_sums *sums) {
    t->kernels->feedback(t, x, rows, blocks, sums);
}
