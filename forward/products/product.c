#include "forward/products/product.h"

#include "base/checked.h"

const product_kernels *product_kernels_for(const kernels *level, matmul_arithmetic arithmetic) {
#ifdef GQ_BLAS
    extern const product_kernels product_kernels_blas;
    if (arithmetic == MATMUL_FLOAT32) return &product_kernels_blas;
#endif
    return kernels_products(level, arithmetic);
}

static void multiply_piece(const product_kernels *by, const matrix_product *p, size_t piece, size_t row,
                           size_t rows, float *y, size_t y_stride, bool add) {
    const product_piece *of = &p->pieces[piece];
    const char *w = p->w, *x = p->x;
    by->multiply(&(product_tile){.w = {w + (of->w + row * p->row_stride) * by->bytes, p->row_stride, 1},
                                 .x = x + of->x * by->bytes,
                                 .x_panel_stride = p->x_panel_stride,
                                 .panel = by->panel,
                                 .y = y,
                                 .y_stride = y_stride,
                                 .y_panel_stride = by->panel,
                                 .rows = rows,
                                 .columns = of->columns,
                                 .tokens = p->tokens,
                                 .width = by->panel,
                                 .add = add});
}

static void multiply_rows(const product_kernels *by, const matrix_product *p, size_t row, size_t rows) {
    for (size_t i = 0; i < p->n_pieces; i++)
        multiply_piece(by, p, i, row, rows, p->y + row * p->y_stride, p->y_stride,
                       p->add || p->apart || i > 0);
}

/* Forms sums of some rows at a time, so that y is read and written once for all of a row's. */
static void multiply_apart(const product_kernels *by, const matrix_product *p, size_t row, size_t rows) {
    enum { MOST_ROWS = 48 }; /* 48 KiB on the stack */
    _Alignas(64) float sums[MOST_ROWS * STRIP_COLUMNS];
    size_t end = row + rows, step = MOST_ROWS / by->rows * by->rows;
    for (size_t n; row < end; row += n) {
        n = min(end - row, step);
        for (size_t i = 0; i < p->n_pieces; i++) {
            multiply_piece(by, p, i, row, n, sums, p->tokens, !p->pieces[i].begins);
            if (i + 1 < p->n_pieces && !p->pieces[i + 1].begins) continue;
            for (size_t r = 0; r < n; r++)
                for (size_t t = 0; t < p->tokens; t++)
                    p->y[(row + r) * p->y_stride + t] += sums[r * p->tokens + t];
        }
    }
}

typedef struct products {
    const product_kernels *by;
    matrix_product_at *at;
    const void *data;
    size_t units, unit_rows; /* units of a product, at most */
} products;

static void multiply_unit(void *data, size_t unit, int) {
    const products *s = data;
    matrix_product p = s->at(s->data, unit / s->units);
    size_t row = unit % s->units * s->unit_rows;
    if (row >= p.rows) return;
    (p.apart ? multiply_apart : multiply_rows)(s->by, &p, row, min(s->unit_rows, p.rows - row));
}

void products_run(threads_pool *pool, const product_kernels *by, size_t n, size_t most_rows,
                  matrix_product_at *at, const void *data) {
    enum { UNIT_ROWS = STRIP_COLUMNS, UNITS = 8 }; /* per thread; half as many rows where those are fewer */
    size_t threads = (size_t)threads_pool_most(pool);
    products s = {by, at, data, 0, n * most_rows < threads * UNITS * UNIT_ROWS ? UNIT_ROWS / 2 : UNIT_ROWS};
    s.units = ceil_div(most_rows, s.unit_rows);
    if (!by->whole) threads_for(pool, n * s.units, 1, multiply_unit, &s);
    for (size_t i = 0; by->whole && i < n; i++) {
        matrix_product p = at(data, i);
        if (p.rows) multiply_rows(by, &p, 0, p.rows);
    }
}
