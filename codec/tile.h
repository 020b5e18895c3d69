/* The inner step of every product of matrices: y (+)= w x by the kernels of one arithmetic, a row of
 * functions that is chosen once (forward/products/product.h). What is above it (forward/products/,
 * codec/feedback.h) cuts matrices into these.
 *
 * In float32 each output is one chain of fused multiply-adds in the order of columns, from 0 or from what y
 * held (of multiplications and additions at x86-64-v2, which has no fused one). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- products of bf16 parts ----
 *
 * Both operands are rounded to bf16, to nearest and to even, and whatever is below 2^-56 becomes 0. Products
 * of such numbers are exact in a float, and all sums are 0 or multiples of 2^-126, so that no denormal ever
 * occurs. Columns are taken in groups of MATMUL_BF16_GROUP, which begin at column 0 of the whole matrix: in a
 * group one chain of fused multiply-adds runs over its even columns and one over its odd ones, both from 0; y
 * becomes y + (even + odd). That is what the tile instruction of AMX does, and what every level does here:
 * the bytes are the same at all of them, x86-64-v2 included, as the products are exact. */
enum { MATMUL_BF16_GROUP = 32 };

/* The upper half of x's bits, rounded so. A NaN becomes the usual one. */
static inline uint16_t matmul_bf16_rounded(float x) {
    uint32_t bits, magnitude;
    memcpy(&bits, &x, sizeof bits);
    magnitude = bits & 0x7fffffff;
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    rounded = magnitude < (uint32_t)(127 - 56) << 23 ? 0 : rounded;
    return (uint16_t)(magnitude > 0x7f800000 ? 0x7fc0 : rounded);
}

/* ---- kernels ----
 *
 * How operands lie in memory is the kernels' own affair. A row of w is `bytes` per element, element after
 * element. A panel of x holds `panel` tokens side by side at each column, one column after another. Where
 * operands are rounded both hold whole groups, with zeros behind the last column. */
enum {
    MATMUL_MOST_PANEL = 32,
    STRIP_COLUMNS = 256, /* of a strip of codec/feedback.h, and rows and columns of its tiles */
    PRODUCT_TRANSPOSED =
        STRIP_COLUMNS +
        16, /* from a row of a transposed tile to the next; no power of two, so that rows do not
                              share sets of a cache */
};

/* Rows of w: element (row, column) is element row * row_stride + column * column_stride, one of which is 1; the
 * latter where operands are rounded. */
typedef struct product_rows {
    const void *at;
    size_t row_stride, column_stride; /* rounded: row_stride is a multiple of a group, or of 64 bytes */
} product_rows;

/* Some rows by the tokens of one panel after another, so that kernels are set up once for all of them. */
typedef struct product_tile {
    product_rows w;
    const void *x;         /* packed panels, */
    size_t x_panel_stride; /* elements from one to the next, */
    size_t panel;          /* and from a column to the next: the kernels' own, or any if they are `whole` */
    float *y;              /* of the first panel: rows x y_stride, */
    size_t y_stride, y_panel_stride; /* floats from a row to the next; from a panel's to the next one's */
    size_t rows, columns, tokens;    /* columns: from the start of a group; tokens: of all panels */
    size_t width; /* tokens of each panel but the last, which may have fewer; up to `panel` */
    bool add;     /* to y: earlier columns are in it; where `rounds`, by such products alone */
} product_tile;

typedef struct product_kernels {
    size_t panel; /* tokens that are multiplied side by side, at most MATMUL_MOST_PANEL */
    size_t bytes; /* of an element, at most those of a float */
    size_t rows;  /* a multiple of these, at most 48, is multiplied fastest */
    bool rounds;  /* operands are rounded to bf16. If not, floats are taken as they lie */
    bool whole;   /* shares out its work itself: callers hand over whole matrices, from one thread */
    /* Puts n numbers into a row from `column` on; where `rounds`, zeros up to the end of the group. */
    void (*round)(const float *x, size_t n, size_t column, void *row);
    /* Puts x[columns][stride] into a panel, of which `column` 0 is x's first; zeros behind the tokens. */
    void (*pack)(const float *x, size_t stride, size_t columns, size_t tokens, void *panel);
    /* Puts n columns of one token from `column` on into a panel; zeros as in `round`. */
    void (*place)(const float *x, size_t n, size_t column, void *panel, size_t token);
    /* Returns the rows of a tile of STRIP_COLUMNS x STRIP_COLUMNS floats, or, transposed, its columns, in place or
     * in `scratch`, PRODUCT_TRANSPOSED x STRIP_COLUMNS floats. Where `rounds` the tile is product_rounded. */
    product_rows (*tile)(const float *tile, bool transposed, float *scratch);
    void (*multiply)(const product_tile *t);
} product_kernels;

/* The i-th panel of a tile alone. bytes: of an element of x. */
static inline product_tile product_panel(const product_tile *t, size_t i, size_t bytes) {
    product_tile panel = *t;
    size_t left = t->tokens - i * t->width;
    panel.x = (const char *)t->x + i * t->x_panel_stride * bytes, panel.y = t->y + i * t->y_panel_stride;
    panel.tokens = left < t->width ? left : t->width;
    return panel;
}

/* The parts of a rounded tile, which lie in place of its floats: those of its rows, then of its columns. */
static inline const uint16_t *product_rounded(const float *tile, bool transposed) {
    return (const uint16_t *)(const void *)tile + (transposed ? STRIP_COLUMNS * STRIP_COLUMNS : 0);
}

/* The arithmetic of products: chains of floats, or bf16. */
typedef enum matmul_arithmetic { MATMUL_FLOAT32, MATMUL_BF16, MATMUL_ARITHMETICS } matmul_arithmetic;
