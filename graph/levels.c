#include <string.h>

#include "graph/simd/kernels.h"

extern const forward_kernels forward_kernels_v2, forward_kernels_v3, forward_kernels_v4, forward_kernels_neon,
    forward_kernels_generic;

const forward_kernels *forward_kernels_of(const kernels *k) {
#ifdef GQ_HAVE_v2
    if (!strcmp(kernels_name(k), "x86-64-v4") || !strcmp(kernels_name(k), "amx")) return &forward_kernels_v4;
    return strcmp(kernels_name(k), "x86-64-v3") ? &forward_kernels_v2 : &forward_kernels_v3;
#elif defined GQ_HAVE_neon
    return (void)k, &forward_kernels_neon;
#else
    return (void)k, &forward_kernels_generic;
#endif
}
