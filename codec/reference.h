/* Plain scalar decoders written from the format description, one element at a time: what the kernels are
 * checked against. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool reference_decode(uint32_t type, const uint8_t *blocks, float *x, size_t n);
/* |scale code| + |minimum| of each element, or a little more: what the error of codec_dot is measured by. */
bool reference_magnitude(uint32_t type, const uint8_t *blocks, float *a, size_t n);
