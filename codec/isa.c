/* Lists the ISA levels that are built in and chooses one. */
#include "codec/codec.h"

#if defined GQ_HAVE_v2 || defined GQ_HAVE_v3 || defined GQ_HAVE_v4
#define HAVE_X86
#endif
#ifdef HAVE_X86
#include <cpuid.h>
#include <stdatomic.h>
#endif
#ifdef GQ_HAVE_amx
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <stdlib.h>
#include <string.h>

extern const kernels kernels_v2, kernels_v3, kernels_v4, kernels_amx, kernels_neon, kernels_generic;

static const struct {
    const char *name;
    const kernels *kernels;
} levels[] = {
#ifdef GQ_HAVE_v2
    {"x86-64-v2", &kernels_v2},
#endif
#ifdef GQ_HAVE_v3
    {"x86-64-v3", &kernels_v3},
#endif
#ifdef GQ_HAVE_v4
    {"x86-64-v4", &kernels_v4},
#endif
#ifdef GQ_HAVE_amx
    {"amx", &kernels_amx},
#endif
#ifdef GQ_HAVE_neon
    {"neon", &kernels_neon},
#endif
#ifdef GQ_HAVE_generic
    {"generic", &kernels_generic},
#endif
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

#ifdef HAVE_X86
/* Requirements of each level beyond those before it: cpuid bits of the processor, and bits of XCR0, as the
 * system has to save these registers. __builtin_cpu_supports is of no use: zig's says no to all. */
enum {
    YMM_STATES = 3 << 1,
    ZMM_STATES = 7 << 5,
    TILE_STATES = 3 << 17,
    AMX_BF16 = 1 << 22,
    AMX_TILE = 1 << 24
};
static const struct {
    const char *name;
    unsigned leaf1_ecx, leaf7_ebx, leaf7_edx, xcr0;
} x86_levels[] = {
    {"x86-64-v2", bit_SSE4_2 | bit_POPCNT, 0, 0, 0},
    {"x86-64-v3", bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C, bit_AVX2 | bit_BMI2, 0, YMM_STATES},
    {"x86-64-v4", 0, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL, 0, ZMM_STATES},
    {"amx", 0, 0, AMX_BF16 | AMX_TILE, TILE_STATES},
};
enum { N_X86_LEVELS = sizeof x86_levels / sizeof *x86_levels };

static int ask_levels(void) {
    unsigned a, b, c, d, leaf1_ecx = 0, leaf7_ebx = 0, leaf7_edx = 0, xcr0 = 0;
    int n = 0;
    __get_cpuid(1, &a, &b, &leaf1_ecx, &d);
    __get_cpuid_count(7, 0, &a, &leaf7_ebx, &c, &leaf7_edx);
    if (leaf1_ecx & bit_OSXSAVE) __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
    while (n < N_X86_LEVELS && !(x86_levels[n].leaf1_ecx & ~leaf1_ecx) &&
           !(x86_levels[n].leaf7_ebx & ~leaf7_ebx) && !(x86_levels[n].leaf7_edx & ~leaf7_edx) &&
           !(x86_levels[n].xcr0 & ~xcr0))
        n++;
    return n;
}
#endif

static bool runs_here(const char *name) {
#ifdef HAVE_X86
    /* Asked once: in a virtual machine cpuid takes as long as encoding some hundred blocks. */
    static atomic_int known;
    if (!atomic_load(&known)) atomic_store(&known, 1 + ask_levels());
    for (int i = 0; i < atomic_load(&known) - 1; i++)
        if (!strcmp(name, x86_levels[i].name)) return true;
    return false;
#else
    (void)name;
    return true;
#endif
}

/* ---- tiles ---- */
#ifdef GQ_HAVE_amx
/* Asks Linux for this process' permission to use tiles, once: it holds for all threads. */
static bool tiles_permitted(void) {
    enum { UNKNOWN, YES, NO, ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    static atomic_int known;
    if (atomic_load(&known) == UNKNOWN)
        atomic_store(&known, syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 ? YES : NO);
    return atomic_load(&known) == YES;
}
#endif

const product_kernels *kernels_products(const kernels *k, matmul_arithmetic arithmetic) {
#ifdef GQ_HAVE_amx
    bool tiles = k == &kernels_amx && arithmetic == MATMUL_BF16;
    if (tiles && !(runs_here("amx") && tiles_permitted())) k = &kernels_v4;
#endif
    return k->products[arithmetic];
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
           : !strcmp(levels[0].name, "x86-64-v2")
               ? "this processor lacks SSE4.2 (x86-64-v2), which is the least that the kernels need"
               : "this processor lacks the levels that this build was made for";
}
