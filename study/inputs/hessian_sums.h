/* The sums that hessian.c makes and cholesky.c reads. */
#pragma once

#include "study/inputs/inputs.h"

enum { TILE = PASS_COLUMNS * PASS_COLUMNS };

/* Sums that a rank forms: slices of so many rows of a tile, the first of them and the one behind the last. */
enum { HESSIAN_SLICE = 16, HESSIAN_SLICES = PASS_COLUMNS / HESSIAN_SLICE };
typedef struct hessian_share_of {
    uint64_t begin, end;
} hessian_share_of;

/* A block on the diagonal. */
typedef struct hessian_block {
    size_t columns;
    float *triangle; /* sums of y y^T, as codec/feedback.h lays them out */
    float *square;   /* sums of (x - y) y^T, likewise, or of r y^T, a rectangle; NULL: x = y */
    /* The same of the group at work; NULL: its tokens all wait until it ends. */
    float *group_triangle, *group_square;
    hessian_share_of of_triangle, of_square; /* that this rank forms */
} hessian_block;

enum { HESSIAN_SLOT = 256 }; /* waiting tokens that the kernel takes at once */
enum { HESSIAN_PLACES = MATMUL_BF16_GROUP, HESSIAN_GROUPS = HESSIAN_TOKENS / HESSIAN_PLACES + 1 };

/* Waiting tokens of a group. Places count on and on: place p is token p % HESSIAN_TOKENS of the slots. The
 * first one is a multiple of HESSIAN_PLACES, where groups of columns begin in bf16. */
typedef struct hessian_group {
    size_t begin, end;
} hessian_group;

struct hessian {
    const kernels *level;
    const product_kernels *by; /* of the sums */
    hessian_shape shape;
    threads_pool *pool;
    hessian_block *blocks;
    size_t n_blocks;
    uint64_t tokens;                      /* in the sums and waiting */
    hessian_group groups[HESSIAN_GROUPS]; /* that wait; the last one is at work, the others have ended */
    size_t n_groups;                      /* 0: no tokens were added yet */
    bool begun; /* group_triangle and group_square have tokens of it that do not wait any more */
    /* Waiting tokens, in slots of HESSIAN_SLOT: y, [column][HESSIAN_SLOT]; y, and x - y or r, in
     * panels of columns, [token][panel]; all as the kernels take them. */
    float *y, *panels, *differences;
};

/* Columns of the i-th block. */
static inline size_t hessian_block_columns(hessian_shape s, size_t i) {
    size_t left = s.columns - i * s.width;
    return left < s.width ? left : s.width;
}
/* Features of x - y or r that belong to a block of so many columns; 0: there is nothing of the kind. */
static inline size_t hessian_second(hessian_shape s, size_t columns) {
    return s.target_features ? s.target_features : s.two_streams ? columns : 0;
}
static inline size_t hessian_blocks(hessian_shape s) { return (s.columns + s.width - 1) / s.width; }
/* Columns beyond this are no tensor's, and no size of a Hessian overflows. */
static inline bool hessian_countable(hessian_shape s) {
    return s.columns <= 1 << 28 && s.target_features <= 1 << 28;
}
/* Adds all groups to the sums; the next tokens are another group's. */
void hessian_settle(hessian *m);
/* Takes the blocks with their sums of y y^T; and those of (x - y) y^T. */
void hessian_lay_out_blocks(hessian *m, memory_ledger *l);
void hessian_lay_out_differences(hessian *m, memory_ledger *l);
/* Frees what only the group at work needs. */
void hessian_drop_group(hessian *m);
