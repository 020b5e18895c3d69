/* Reads matrices with rows and columns exchanged, each matrix of a 3-d tensor by itself: as if the tensor
 * were stored with the dimensions that transposed_shape gives. */
#ifndef GQ_TRANSPOSED_H
#define GQ_TRANSPOSED_H

#include "quantize/strips/strip.h"

/* Sets `to` to ne with the first two dimensions exchanged. */
void transposed_shape(const uint64_t ne[4], uint64_t to[4]);
/* Returns the number of the stored element that is the i-th of the tensor transposed. */
uint64_t transposed_element(const model_tensor *stored, uint64_t i);

/* Does for a part of a transposed tensor what strip_read_decoded does: strip->rows rows from strip->first
 * on, of each strip->cols columns, packed. The rows may be of several matrices, and need not be whole. Every
 * block that holds some of the part is read and decoded anew, so parts of many rows at once are cheaper.
 * Scratch: `bytes` has STORED_BYTES * STRIP_ELEMENTS bytes, `decoded` STRIP_ELEMENTS floats. x gets
 * rows * cols floats. */
bool transposed_read(const kernels *k, const model_source *m, const model_tensor *stored, const strip *s,
                     uint8_t *bytes, float *decoded, float *x, gq_error *e);

#endif
