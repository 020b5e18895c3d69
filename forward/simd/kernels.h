/* What of this room is compiled once per ISA level. */
#ifndef GQ_FORWARD_KERNELS_H
#define GQ_FORWARD_KERNELS_H

#include "codec/codec.h"

typedef struct forward_kernels {
    /* y[t] += w x[t] for n tokens. */
    void (*axpy)(float w, const float *x, float *y, size_t n);
} forward_kernels;

/* Those of the level that k are of. */
const forward_kernels *forward_kernels_of(const kernels *k);

#endif
