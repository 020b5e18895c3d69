/* The functions of this folder that are compiled once per ISA level. */
#pragma once

#include "codec/codec.h"
#include "forward/graph/simd/elements.h"
#include "forward/graph/simd/recurrence.h"

typedef struct forward_kernels {
    const element_kernels *elements;
    const recurrence_kernels *recurrence;
} forward_kernels;

/* Returns the functions of the same ISA level as k. */
const forward_kernels *forward_kernels_of(const kernels *k);
