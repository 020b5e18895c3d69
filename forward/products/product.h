/* Products of whole matrices by the kernels of one arithmetic (codec/tile.h).
 *
 * Kernels are chosen once, by product_kernels_for, and stand beside the operands that were laid out for them.
 * Who asks for a product says nothing of how it is done: here it is cut into tiles for all threads, or, where
 * kernels share out their work themselves (`whole`: a BLAS, a device), handed over with all rows and tokens.
 * Kernels of another library are a file beside product_blas.c and a line of product_kernels_for. */
#pragma once

#include "base/threads.h"
#include "codec/codec.h"

/* The kernels of an arithmetic: the level's own, or a BLAS's for float32 where gquant is built with one. */
const product_kernels *product_kernels_for(const kernels *level, matmul_arithmetic arithmetic);

/* Columns of w and x that lie side by side. */
typedef struct product_piece {
    size_t w, x;    /* first elements of the piece, counted from the product's */
    size_t columns; /* from the start of a group */
    bool begins;    /* a sum of its own (`apart`) */
} product_piece;

/* y (+)= w x, over all pieces of columns in their order. */
typedef struct matrix_product {
    const void *w, *x;     /* as the kernels take them */
    size_t row_stride;     /* of w, in elements */
    size_t x_panel_stride; /* elements from a panel to the next */
    float *y;              /* rows x y_stride */
    size_t y_stride, rows, tokens;
    const product_piece *pieces;
    size_t n_pieces;
    bool add;
    bool apart; /* pieces from one that `begins` to the next are summed up from 0, and that sum is added to y;
                   at most STRIP_COLUMNS tokens. Kernels that are `whole` may add to y at once */
} matrix_product;

/* Computes n products, the i-th of which `at` returns, with at most so many rows each; some may have none.
 * Not from inside a loop of the pool. */
typedef matrix_product matrix_product_at(const void *data, size_t i);
void products_run(threads_pool *pool, const product_kernels *by, size_t n, size_t most_rows,
                  matrix_product_at *at, const void *data);
