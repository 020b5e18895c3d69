/* Arrays in memory, as the public header has them, and what encodes their rows with a Hessian. */
#pragma once

#include "quantize/gquant_arrays.h"
#include "quantize/strips/strips.h"

/* An encoder of rows that takes the Hessian of the inputs, E[x x^T], into account
 * (study/inputs/hessian_encoder.c). */
typedef struct array_rounding {
    size_t rows; /* rows that are encoded at a time, at most */
    /* search: the encoder without a Hessian, of a type whose codec has steps; borrowed, as the options are.
     * NULL: *e says why. */
    void *(*open)(const strip_encoder *search, size_t columns, const gq_array_options *o, gq_error *e);
    size_t (*scratch_bytes)(const void *rounder); /* of each thread, aligned to 64 */
    /* Does what strip_encode does, for up to `rows` rows. The weighted sums are under the Hessian. */
    size_t (*encode)(const void *rounder, const float *x, size_t rows, uint8_t *blocks, void *scratch,
                     codec_error *sum);
    void (*close)(void *rounder);
} array_rounding;

/* gq_encode; rounding NULL: a Hessian is refused. */
bool array_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x,
                  const gq_array_options *options, void *to, size_t bytes, const array_rounding *rounding,
                  gq_loss *loss, gq_error *e);
