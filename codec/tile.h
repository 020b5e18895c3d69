/* The inner step of every product of matrices: at one ISA level, some rows by a panel of columns, outputs in
 * registers. What is above it (products/matmul.h, codec/feedback.h, imatrix/moments.h) cuts matrices into
 * these.
 *
 * Each output is one chain of fused multiply-adds in the order of columns, from 0 or from what y held (of
 * multiplications and additions at x86-64-v2, which has no fused one).
 */
#ifndef GQ_CODEC_TILE_H
#define GQ_CODEC_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* ---- products of bf16 parts ----
 *
 * Both operands are rounded to bf16, to nearest and to even, and whatever is below 2^-56 becomes 0. Products
 * of such numbers are exact in a float, and all sums are 0 or multiples of 2^-126, so that no denormal ever
 * occurs. Columns are taken in groups of MATMUL_BF16_GROUP, which begin at column 0 of the whole matrix: in a
 * group one chain of fused multiply-adds runs over its even columns and one over its odd ones, both from 0;
 * y becomes y + (even + odd). That is what the tile instruction of AMX does, and what every level does here:
 * the bytes are the same at all of them, x86-64-v2 included, as the products are exact.
 *
 * How operands lie in memory is the level's own affair. A row is `bytes` per element, element after element;
 * a panel has room for columns x panel of them. Both hold whole groups, with zeros behind the last column. */
enum { MATMUL_BF16_GROUP = 32 };

/* The upper half of x's bits, rounded so. A NaN becomes the usual one. */
static inline uint16_t matmul_bf16_part(float x) {
    uint32_t bits, magnitude;
    memcpy(&bits, &x, sizeof bits);
    magnitude = bits & 0x7fffffff;
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    rounded = magnitude < (uint32_t)(127 - 56) << 23 ? 0 : rounded;
    return (uint16_t)(magnitude > 0x7f800000 ? 0x7fc0 : rounded);
}

/* Some rows by the tokens of one panel after another, so that tiles are set up once for all of them. */
typedef struct matmul_bf16_tile {
    const void *w;                          /* rounded; element (row, 0) is element row * row_step */
    size_t row_step;                        /* a multiple of MATMUL_BF16_GROUP, or of 64 bytes */
    const void *x;                          /* packed panels, */
    size_t x_step;                          /* elements from one to the next */
    float *y;                               /* rows x y_stride */
    size_t y_stride, rows, columns, tokens; /* columns: from the start of a group; tokens: of all panels */
    bool add;                               /* to y: earlier columns are in it, by such products alone */
} matmul_bf16_tile;

typedef struct matmul_bf16_kernels {
    size_t panel; /* as in matmul_kernels */
    size_t bytes; /* of an element, at most those of a float */
    size_t rows;  /* a multiple of these is multiplied fastest */
    /* Rounds n numbers to the elements of a row from `column` on; zeros up to the end of the group. */
    void (*round)(const float *x, size_t n, size_t column, void *row);
    /* Rounds x[columns][stride] to a panel, of which `column` 0 is x's first; zeros behind the tokens. */
    void (*pack)(const float *x, size_t stride, size_t columns, size_t tokens, void *panel);
    /* Rounds n columns of one token from `column` on into a panel; zeros up to the end of the group. */
    void (*place)(const float *x, size_t n, size_t column, void *panel, size_t token);
    /* Returns rows of n parts (matmul_bf16_part) in all as multiply takes them: these, or a copy in `rows`.
     */
    const void *(*rows_of)(const uint16_t *parts, size_t n, void *rows);
    void (*multiply)(const matmul_bf16_tile *t);
} matmul_bf16_kernels;

/* Multiplies a tile of rows of which the columns come one after another: those of bf16, or, where bf16 is
 * NULL, the same with floats for its elements. */
static inline void matmul_multiply_tile(const matmul_kernels *kernels, const matmul_bf16_kernels *bf16,
                                        const matmul_bf16_tile *t) {
    size_t panel = kernels->panel, token = 0;
    if (bf16) {
        bf16->multiply(t);
        return;
    }
    for (const float *x = t->x; token < t->tokens; token += panel, x += t->x_step)
        kernels->multiply(&(matmul_tile){.w = t->w,
                                         .row_step = t->row_step,
                                         .column_step = 1,
                                         .x = x,
                                         .y = t->y + token,
                                         .y_stride = t->y_stride,
                                         .rows = t->rows,
                                         .columns = t->columns,
                                         .tokens = t->tokens - token < panel ? t->tokens - token : panel,
                                         .add = t->add});
}

/* How products are computed: as above, or in bf16. */
typedef enum matmul_arithmetic { MATMUL_FLOAT32, MATMUL_BF16 } matmul_arithmetic;

#endif
