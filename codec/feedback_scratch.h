/* The layout of the scratch of a pass of codec/feedback.h: floats; where moments are rounded what is
 * multiplied with them; then the blocks' state of the type's steps. */
#pragma once

#include "codec/feedback.h"

enum {
    FEEDBACK_ARRAYS = 5,       /* with all columns of all rows */
    FEEDBACK_STRIP_ARRAYS = 7, /* with a strip's */
    FEEDBACK_STATE_BYTES =
        8, /* steps keep at most 6 bytes per row and column, whatever the level's vectors */
};

static inline uint64_t feedback_floats(size_t columns) {
    uint64_t n = (uint64_t)feedback_padded(columns) * FEEDBACK_ARRAYS + PASS_COLUMNS * FEEDBACK_STRIP_ARRAYS;
    return n * FEEDBACK_ROWS + PASS_COLUMNS * PRODUCT_TURNED;
}
/* Elements of rounded operands: two arrays with all columns of all rows, and one with a strip's. */
static inline uint64_t feedback_parts(size_t columns) {
    return (2 * (uint64_t)feedback_padded(columns) + PASS_COLUMNS) * FEEDBACK_ROWS;
}
static inline size_t feedback_state_bytes(const codec_steps *s) { return (s->state_bytes + 63) / 64 * 64; }
