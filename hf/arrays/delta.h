/* A change of low rank to an array: the product of two narrow matrices that an adapter has, which is added as
 * the array is read.
 *
 * Element (i, j) of matrix m becomes w + scale * (l(i, 0) r(0, j) + l(i, 1) r(1, j) + ...), where i and j
 * count rows and columns as the array is stored. The sum begins with the product of rank 0, each product is
 * rounded before it is added, and all is done in 32-bit floats: the result depends on neither the rectangle
 * that is read nor the processor. With DoRA the sum is then multiplied by a magnitude over the norm of w plus
 * the change, along the row or, where outputs are columns, along the column.
 */
#pragma once

#include "hf/arrays/source.h"

/* Reads n_rows rows of a source, as hf_source_read does, with all its changes. */
bool hf_changed_read(const hf_source *s, uint64_t row, uint64_t n_rows, uint64_t column, uint64_t n_columns,
                     const tensor_type *as, void *to, gq_error *e);
/* Reads n lines from `first` on of a factor of matrix m: element (i, k) goes to to[i * by_line + k * by_rank].
 */
bool hf_factor_read(const hf_delta *d, const hf_factor *f, uint64_t m, uint64_t first, uint64_t n, float *to,
                    uint64_t by_line, uint64_t by_rank, gq_error *e);
/* Takes the magnitudes of DoRA, one for each output; reads the whole source where outputs are columns. */
bool hf_delta_set_magnitude(const hf_source *s, hf_delta *d, const hf_stored *magnitude, gq_error *e);
void hf_delta_free(hf_delta *d);
void hf_deltas_free(hf_deltas *d);
