/* The layout of the scratch of a pass of codec/feedback.h: floats; with moments in bf16 what is multiplied
 * with them; then the blocks' state of the type's steps. */
#ifndef GQ_CODEC_FEEDBACK_SCRATCH_H
#define GQ_CODEC_FEEDBACK_SCRATCH_H

#include "codec/feedback.h"

enum {
    FEEDBACK_ARRAYS = 5,                 /* with all columns of all rows */
    FEEDBACK_STRIP_ARRAYS = 7,           /* with a strip's */
    FEEDBACK_TURNED = PASS_COLUMNS + 16, /* from a row of a turned tile to the next; no power of two, so
                                              that rows do not share sets of a cache */
    FEEDBACK_STATE_BYTES =
        8, /* steps keep at most 6 bytes per row and column, whatever the level's vectors */
};

static inline uint64_t feedback_floats(size_t columns) {
    uint64_t n = (uint64_t)feedback_padded(columns) * FEEDBACK_ARRAYS + PASS_COLUMNS * FEEDBACK_STRIP_ARRAYS;
    return n * FEEDBACK_ROWS + PASS_COLUMNS * FEEDBACK_TURNED;
}
/* Elements of bf16, or of a float in its place: two arrays with all columns of all rows, one with a strip's,
 * and a tile. */
static inline uint64_t feedback_parts(size_t columns) {
    uint64_t n = 2 * (uint64_t)feedback_padded(columns) + PASS_COLUMNS;
    return n * FEEDBACK_ROWS + PASS_COLUMNS * PASS_COLUMNS;
}
static inline size_t feedback_state_bytes(const codec_steps *s) { return (s->state_bytes + 63) / 64 * 64; }

#endif
