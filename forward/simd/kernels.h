/* What of this room is compiled once per ISA level. */
#ifndef GQ_FORWARD_KERNELS_H
#define GQ_FORWARD_KERNELS_H

#include "codec/codec.h"
#include "forward/simd/elements.h"

/* Some rows of weights by the tokens of one panel, at columns of which the panel holds as many. */
typedef struct matmul_tile {
    const float *w;               /* element (row, column) at w[row * row_step + column * column_step], */
    size_t row_step, column_step; /* one of which is 1 */
    const float *x;               /* columns x panel, packed */
    float *y;                     /* rows x y_stride */
    size_t y_stride, rows, columns, tokens;
    bool add; /* to y: earlier columns are in it */
} matmul_tile;

typedef struct matmul_kernels {
    size_t panel; /* tokens that are multiplied side by side, at most MATMUL_MOST_PANEL */
    void (*multiply)(const matmul_tile *t);
    /* x[columns][stride] -> panel[columns][panel], zeros behind the tokens */
    void (*pack)(const float *x, size_t stride, size_t columns, size_t tokens, float *panel);
} matmul_kernels;
enum { MATMUL_MOST_PANEL = 32 };

typedef struct forward_kernels {
    const matmul_kernels *matmul;
    const element_kernels *elements;
} forward_kernels;

/* Those of the level that k are of. */
const forward_kernels *forward_kernels_of(const kernels *k);

#endif
