/* The kernels of one ISA level as a table. */
#include "forward/simd/fma.h"
#include "forward/simd/kernels.h"

static void axpy(float w, const float *x, float *y, size_t n) {
    for (size_t t = 0; t < n; t++) y[t] = fused1(w, x[t], y[t]);
}

extern const forward_kernels LEVEL(forward_kernels);
const forward_kernels LEVEL(forward_kernels) = {axpy};
