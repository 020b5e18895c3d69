/* A vector that rows of weights are multiplied with (codec_dot), and how near to exact the products are.
 *
 * out[r] = sum over columns k of decoded(r, k) x[k], from the blocks as they are stored.
 *
 * Numbers (F32, F16, BF16): sixteen columns lie side by side, each with a sum of products, two sums in turn.
 * Blocks: x is rounded to 16 bits, with a step for each 32 columns. Codes times x are whole numbers and added
 * without error in 16 or 32 columns; that times scale and step is added to sums in turn. Minimums are
 * multiplied with sums of x itself and added apart. At the end sums are added in halves. A row's result
 * depends on that row and x alone, not on how rows are grouped into calls or dealt out to threads; ISA levels
 * may differ in last bits.
 *
 * How near a result is to the exact sum of exact products of what the type's decoder returns,
 * codec_dot_tolerance says. x must be finite and below 2^100. */
#pragma once

#include "codec/codec.h"

struct codec_vector {
    const float *x;
    const int16_t *fixed;         /* x in steps */
    const float *step16, *step32; /* of so many columns each */
    const float *of16, *of32;     /* sums of x over so many columns each; all as far as they are whole */
};
/* Make ready for rows of `cols` columns, and of any fewer. x and scratch, which holds
 * codec_vector_floats(cols) floats, belong to the caller and are used as long as the vector is. */
size_t codec_vector_floats(size_t cols);
codec_vector codec_vector_make(const float *x, size_t cols, float *scratch);

/* Bounds what column k adds to a row's sum: `magnitude`, from reference_magnitude(), times |x|; in vectors of
 * blocks times the largest |x| of its 32 columns. */
static inline double codec_dot_magnitude(const tensor_type *type, const codec_vector *v, size_t k,
                                         float magnitude) {
    const double x = type->block_elements > 1 ? 32767 * (double)v->step32[k / 32] : (double)v->x[k];
    return (double)magnitude * (x < 0 ? -x : x);
}
/* The error bound of a result, where the terms' magnitudes sum up to `sum`, at most 2^120. The last part is what
 * products may lose that are smaller than normal floats. */
static inline double codec_dot_tolerance(const tensor_type *type, size_t cols, double sum) {
    const double rounded = type->block_elements > 1 ? 0x1.02p-16 : 0;
    return (rounded + ((double)cols / 8 + 16) * 0x1p-24) * sum + (double)cols * 0x1p-148;
}
