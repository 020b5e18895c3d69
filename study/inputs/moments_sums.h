/* The sums that moments.c makes and factor.c reads. */
#pragma once

#include "base/memory.h"
#include "study/inputs/moments.h"

enum { TILE = PASS_COLUMNS * PASS_COLUMNS };

/* Sums that a rank forms: slices of so many rows of a tile, the first of them and the one behind the last. */
enum { MOMENTS_SLICE = 16, MOMENTS_SLICES = PASS_COLUMNS / MOMENTS_SLICE };
typedef struct moments_share_of {
    uint64_t begin, end;
} moments_share_of;

/* A block on the diagonal. */
typedef struct moments_block {
    size_t columns;
    float *triangle; /* sums of y y^T, as codec/feedback.h lays them out */
    float *square;   /* sums of (x - y) y^T, likewise, or of r y^T, a rectangle; NULL: x = y */
    /* The same of the group at work; NULL: its tokens all wait until it ends. */
    float *group_triangle, *group_square;
    moments_share_of of_triangle, of_square; /* that this rank forms */
} moments_block;

enum { MOMENTS_SLOT = 256 }; /* waiting tokens that the kernel takes at once */
enum { MOMENTS_PLACES = MATMUL_BF16_GROUP, MOMENTS_GROUPS = MOMENTS_TOKENS / MOMENTS_PLACES + 1 };

/* Waiting tokens of a group. Places count on and on: place p is token p % MOMENTS_TOKENS of the slots. The
 * first one is a multiple of MOMENTS_PLACES, where groups of columns begin in bf16. */
typedef struct moments_group {
    size_t begin, end;
} moments_group;

struct moments {
    const kernels *level;
    const product_kernels *by; /* of the sums */
    moments_shape shape;
    threads_pool *pool;
    moments_block *blocks;
    size_t n_blocks;
    uint64_t tokens;                      /* in the sums and waiting */
    moments_group groups[MOMENTS_GROUPS]; /* that wait; the last one is at work, the others have ended */
    size_t n_groups;                      /* 0: no tokens were added yet */
    bool begun; /* group_triangle and group_square have tokens of it that do not wait any more */
    /* Waiting tokens, in slots of MOMENTS_SLOT: y, [column][MOMENTS_SLOT]; y, and x - y or r, in
     * panels of columns, [token][panel]; all as the kernels take them. */
    float *y, *panels, *differences;
};

/* Columns of the i-th block. */
static inline size_t moments_block_columns(moments_shape s, size_t i) {
    size_t left = s.columns - i * s.width;
    return left < s.width ? left : s.width;
}
/* Features of x - y or r that belong to a block of so many columns; 0: there is nothing of the kind. */
static inline size_t moments_second(moments_shape s, size_t columns) {
    return s.lacking ? s.lacking : s.two_streams ? columns : 0;
}
static inline size_t moments_blocks(moments_shape s) { return (s.columns + s.width - 1) / s.width; }
/* Columns beyond this are no tensor's, and no size of moments overflows. */
static inline bool moments_countable(moments_shape s) { return s.columns <= 1 << 28 && s.lacking <= 1 << 28; }
/* Adds all groups to the sums; the next tokens are another group's. */
void moments_settle(moments *m);
/* Takes the blocks with their sums of y y^T; and those of (x - y) y^T. */
void moments_lay_out_blocks(moments *m, memory_ledger *l);
void moments_lay_out_differences(moments *m, memory_ledger *l);
/* Frees what only the group at work needs. */
void moments_drop_group(moments *m);
