/* The inner step of every product of matrices: at one ISA level, some rows by a panel of columns, outputs in
 * registers. What is above it (forward/matmul.h, codec/feedback.h, imatrix/moments.h) cuts matrices into
 * these.
 *
 * Each output is one chain of fused multiply-adds in the order of columns, from 0 or from what y held (of
 * multiplications and additions at x86-64-v2, which has no fused one).
 */
#ifndef GQ_CODEC_TILE_H
#define GQ_CODEC_TILE_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
