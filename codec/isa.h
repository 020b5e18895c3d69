/* The kernels of this processor: the levels that are built in, and which of them runs here. */
#pragma once

#include <stddef.h>

#include "codec/tile.h"

typedef struct kernels kernels; /* codec/codec.h */

/* Name of a level: "x86-64-v3", "neon", ... */
const char *kernels_name(const kernels *k);
/* The best level that this CPU runs, or the one that GQUANT_ISA names. NULL when that one is unknown or
 * cannot run here. */
const kernels *kernels_select(void);
/* Why that was NULL, a sentence. */
const char *kernels_why_none(void);
/* By name; NULL: unknown, not built in, or not for this CPU. */
const kernels *kernels_level(const char *isa);
/* The i-th level built in, best last; NULL behind the last. */
const char *kernels_level_name(size_t i);

/* Products at this level. For those in bf16 of the level "amx" this asks the system, once per process, whether
 * tiles may be used; if not (an old kernel, a container, a thread with a signal stack too small for them),
 * they are x86-64-v4's, whose bytes are the same. From then on the system refuses signal stacks that are too
 * small for tiles; so this is called for bf16 only by who multiplies in it. */
const product_kernels *kernels_products(const kernels *k, matmul_arithmetic arithmetic);
