/* Lists the ISA levels that are built in and chooses one. */
#include "codec/isa.h"

#ifdef GQ_HAVE_v2
#include <cpuid.h>
#include <stdatomic.h>
#endif
#ifdef GQ_HAVE_amx
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"

extern const kernels kernels_v2, kernels_v3, kernels_v4, kernels_amx, kernels_neon, kernels_generic;

static const struct {
    const char *name;
    const kernels *kernels;
} levels[] = {
#ifdef GQ_HAVE_v2
    {"x86-64-v2", &kernels_v2},
    {"x86-64-v3", &kernels_v3},
    {"x86-64-v4", &kernels_v4},
#ifdef GQ_HAVE_amx
    {"amx", &kernels_amx},
#endif
#elif defined GQ_HAVE_neon
    {"neon", &kernels_neon},
#else
    {"generic", &kernels_generic},
#endif
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

#ifdef GQ_HAVE_v2
/* Returns what `ask` says, asked once: in a virtual machine cpuid takes as long as encoding some hundred
 * blocks. */
static bool answer_once(atomic_int *known, bool (*ask)(void)) {
    enum { UNKNOWN = 0, YES, NO };
    if (atomic_load(known) == UNKNOWN) atomic_store(known, ask() ? YES : NO);
    return atomic_load(known) == YES;
}

/* clang 14 does not know this one by name. */
static bool ask_f16c(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}
static bool has_f16c(void) {
    static atomic_int known;
    return answer_once(&known, ask_f16c);
}
#endif

/* ---- tiles ---- */
#ifdef GQ_HAVE_amx
/* Whether the processor has tiles and their products of bf16, and the system saves both parts of a tile's
 * state, bits 17 and 18 of XCR0. */
static bool ask_tiles(void) {
    enum { OSXSAVE = 1 << 27, AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, TILE_STATES = 3 << 17 };
    unsigned a, b, c = 0, d = 0, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILE_STATES) == TILE_STATES;
}

static bool has_tiles(void) {
    static atomic_int known;
    return answer_once(&known, ask_tiles);
}

/* Asks Linux for this process' permission to use tiles: it holds for all threads. */
static bool ask_permission(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}
static bool tiles_permitted(void) {
    static atomic_int known;
    return answer_once(&known, ask_permission);
}
#endif

const matmul_bf16_kernels *kernels_bf16(const kernels *k) {
#ifdef GQ_HAVE_amx
    if (k == &kernels_amx && !(has_tiles() && tiles_permitted())) return kernels_v4.matmul_bf16;
#endif
    return k->matmul_bf16;
}

static bool runs_here(const char *name) {
#ifdef GQ_HAVE_amx
    if (!strcmp(name, "amx")) return has_tiles() && runs_here("x86-64-v4");
#endif
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
