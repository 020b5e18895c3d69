/* What moments.c sums up and factor.c reads. */
#ifndef GQ_MOMENTS_SUMS_H
#define GQ_MOMENTS_SUMS_H

#include "imatrix/moments.h"

enum { TILE = FEEDBACK_STRIP * FEEDBACK_STRIP };

/* A block on the diagonal. */
typedef struct moments_block {
    size_t columns;
    double *triangle; /* sums of y y^T, as codec/feedback.h lays them out */
    double *square;   /* sums of (x - y) y^T; NULL: x = y */
} moments_block;

struct moments {
    const matmul_kernels *kernels;
    moments_shape shape;
    int threads;
    moments_block *blocks;
    size_t n_blocks;
    uint64_t tokens; /* in the sums and waiting */
    size_t waiting;
    /* Of those that wait: y and x - y, [column][MOMENTS_TOKENS], and y once more in panels of columns,
     * [token][panel]. */
    float *y, *difference, *panels;
    float *tiles; /* one per thread */
};

/* Columns of the i-th block. */
static inline size_t moments_block_columns(moments_shape s, size_t i) {
    size_t left = s.columns - i * s.width;
    return left < s.width ? left : s.width;
}
static inline size_t moments_blocks(moments_shape s) { return (s.columns + s.width - 1) / s.width; }
/* Add those that wait. */
void moments_settle(moments *m);

#endif
