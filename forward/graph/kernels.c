#include <string.h>

#include "forward/graph/simd/kernels.h"

extern const forward_kernels forward_kernels_v2, forward_kernels_v3, forward_kernels_v4, forward_kernels_neon,
    forward_kernels_generic;

static const struct {
    const char *name; /* of the codec's level */
    const forward_kernels *kernels;
} levels[] = {
#ifdef GQ_HAVE_v2
    {"x86-64-v2", &forward_kernels_v2},
#endif
#ifdef GQ_HAVE_v3
    {"x86-64-v3", &forward_kernels_v3},
#endif
#ifdef GQ_HAVE_v4
    {"x86-64-v4", &forward_kernels_v4},    {"amx", &forward_kernels_v4},
#endif
#ifdef GQ_HAVE_neon
    {"neon", &forward_kernels_neon},
#endif
#ifdef GQ_HAVE_generic
    {"generic", &forward_kernels_generic},
#endif
};

const forward_kernels *forward_kernels_of(const kernels *k) {
    for (size_t i = 1; i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(levels[i].name, kernels_name(k))) return levels[i].kernels;
    return levels[0].kernels; /* which every processor has that runs any */
}
