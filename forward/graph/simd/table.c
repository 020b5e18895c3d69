/* The kernels of one ISA level as a table. */
#include "codec/simd/lanes.h"
#include "forward/graph/simd/kernels.h"

extern const element_kernels LEVEL(element_kernels);
extern const recurrence_kernels LEVEL(recurrence_kernels);
extern kld_adds LEVEL(kld_add);
extern const forward_kernels LEVEL(forward_kernels);
const forward_kernels LEVEL(forward_kernels) = {&LEVEL(element_kernels), &LEVEL(recurrence_kernels),
                                                LEVEL(kld_add)};
