/* Products in float32 by a BLAS, in place of our own kernels. It is called by its Fortran name, which every
 * BLAS has and which is the one that NVBLAS steps in for. How many threads it uses is its own affair; so is
 * the order of its sums, on which results then depend.
 *
 * Panels are of one token, or as wide as the caller's matrix: as it lies, that is one to a BLAS, too. */
#include <string.h>

#include "codec/tile.h"

extern void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                   const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                   const float *beta, float *c, const int *ldc);

static void blas_round(const float *x, size_t n, size_t column, void *row) {
    memcpy((float *)row + column, x, sizeof *x * n);
}

static void blas_pack(const float *x, size_t stride, size_t columns, size_t, void *panel) {
    for (size_t c = 0; c < columns; c++) ((float *)panel)[c] = x[c * stride];
}

static void blas_place(const float *x, size_t n, size_t column, void *panel, size_t) {
    blas_round(x, n, column, panel);
}

static product_rows blas_tile(const float *tile, bool transposed, float *) {
    return transposed ? (product_rows){tile, 1, STRIP_COLUMNS} : (product_rows){tile, STRIP_COLUMNS, 1};
}

/* Fortran has matrices by columns, so what is y here is y transposed there, and the factors change places. */
static void blas_multiply_panel(const product_tile *t) {
    bool single = t->panel == 1,
         transposed = t->w.column_stride != 1; /* single: x is stored token after token */
    const int m = (int)t->tokens, n = (int)t->rows, k = (int)t->columns,
              ldx = (int)(single ? t->x_panel_stride : t->panel),
              ldw = (int)(transposed ? t->w.column_stride : t->w.row_stride), ldy = (int)t->y_stride;
    const float one = 1, kept = t->add ? 1 : 0;
    sgemm_(single ? "T" : "N", transposed ? "T" : "N", &m, &n, &k, &one, t->x, &ldx, t->w.at, &ldw, &kept,
           t->y, &ldy);
}

/* Panels of one token are one matrix. */
static void blas_multiply(const product_tile *t) {
    product_tile wide = *t;
    if (t->panel == 1) wide.width = t->tokens;
    for (size_t i = 0; i * wide.width < t->tokens; i++) {
        product_tile panel = product_panel(&wide, i, sizeof(float));
        blas_multiply_panel(&panel);
    }
}

extern const product_kernels product_kernels_blas;
const product_kernels product_kernels_blas = {.panel = 1,
                                              .bytes = sizeof(float),
                                              .rows = 1,
                                              .whole = true,
                                              .round = blas_round,
                                              .pack = blas_pack,
                                              .place = blas_place,
                                              .tile = blas_tile,
                                              .multiply = blas_multiply};
