/* A vector that rows of weights are multiplied with (codec_dot), and how near to exact the products are.
 *
 * out[r] = sum over columns k of decoded(r, k) x[k], from the blocks as they are stored. Sixteen columns lie
 * side by side in lanes. A lane adds up code times x over the columns of a (sub-)block, ascending, and adds
 * that times the scale to one of two sums, in turn; minimums are multiplied with sums of x and added apart;
 * at the end lanes are added in halves. A row's sum depends on that row and x alone, not on how rows are
 * grouped into calls or dealt out to threads. Levels that have fused multiply-add agree to the bit, the
 * others may differ in last bits.
 *
 * A result is as near to the exact sum of exact products of what the type's decoder returns as
 *     (cols / 8 + 16) 2^-24  sum over k of |scale(k) code(k) x[k]| + |minimum(k) x[k]|,
 * without a minimum: of |decoded(k) x[k]|. reference_magnitude() tells these factors of x. Codes times x must
 * not overflow: |x| below 2^100.
 */
#ifndef GQ_VECTOR_H
#define GQ_VECTOR_H

#include "codec/codec.h"

struct codec_vector {
    const float *x;
    const float *of16, *of32; /* sums of so many columns each, as far as they are whole */
};
/* Make ready for rows of `cols` columns, and of any fewer. x and room, which holds codec_vector_room(cols)
 * floats, belong to the caller and are used as long as the vector is. */
size_t codec_vector_room(size_t cols);
codec_vector codec_vector_make(const float *x, size_t cols, float *room);

/* How far from the exact one a result may be, where the sum above is `sum` and no more than 2^120. The
 * second part is what products may lose that are smaller than normal floats. */
static inline double codec_dot_tolerance(size_t cols, double sum) {
    return ((double)cols / 8 + 16) * 0x1p-24 * sum + (double)cols * 0x1p-148;
}

#endif
