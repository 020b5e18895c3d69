/* Lists the ISA levels that are built in and chooses one. */
#ifdef GQ_HAVE_v2
#include <cpuid.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

extern const kernels kernels_v2, kernels_v3, kernels_v4, kernels_neon, kernels_generic;

static const struct {
    const char *name;
    const kernels *kernels;
} levels[] = {
#ifdef GQ_HAVE_v2
    {"x86-64-v2", &kernels_v2},
    {"x86-64-v3", &kernels_v3},
    {"x86-64-v4", &kernels_v4},
#elif defined GQ_HAVE_neon
    {"neon", &kernels_neon},
#else
    {"generic", &kernels_generic},
#endif
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

#ifdef GQ_HAVE_v2
/* clang 14 does not know this one by name. */
static bool has_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
#endif

static bool runs_here(const char *name) {
#ifdef GQ_HAVE_v2
    if (!strcmp(name, "x86-64-v2"))
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    if (!strcmp(name, "x86-64-v3"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2") && has_f16c();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && runs_here("x86-64-v3");
#else
    (void)name;
    return true;
#endif
}

const kernels *kernels_level(const char *isa) {
    for (int i = 0; i < N_LEVELS; i++)
        if (!strcmp(levels[i].name, isa)) return runs_here(isa) ? levels[i].kernels : NULL;
    return NULL;
}

const char *kernels_name(const kernels *k) {
    for (int i = 0; i < N_LEVELS; i++)
        if (levels[i].kernels == k) return levels[i].name;
    return "?";
}

const char *kernels_level_name(size_t i) { return i < N_LEVELS ? levels[i].name : NULL; }

static const char *isa_forced(void) {
    const char *isa = getenv("GQUANT_ISA");
    return isa && *isa ? isa : NULL;
}

const kernels *kernels_select(void) {
    if (isa_forced()) return kernels_level(isa_forced());
    for (int i = N_LEVELS; i-- > 0;)
        if (runs_here(levels[i].name)) return levels[i].kernels;
    return NULL;
}

const char *kernels_why_none(void) {
    return isa_forced() ? "GQUANT_ISA names a level that is unknown or that this processor lacks"
                        : "this processor lacks SSE4.2 (x86-64-v2), which is the least that the kernels need";
}
