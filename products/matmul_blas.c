/* Products with weights by a BLAS in place of our own kernels: rows are decoded to floats, as many as fit,
 * and go into sgemm. Decoding them is spread over our threads.
 */
#include "base/blas.h"
#include "products/matmul_scratch.h"

typedef struct decoded_rows {
    const matmul *m;
    const matmul_weights *w;
    size_t row, first, columns; /* first: column */
} decoded_rows;

static void decode_row(void *data, size_t r, int thread) {
    const decoded_rows *d = data;
    (void)thread;
    size_t bytes = gguf_row_bytes(tensor_type_of(d->w->type), d->w->columns);
    d->m->codecs[d->w->type].decode((const uint8_t *)d->w->data + (d->row + r) * bytes, d->first,
                                    d->m->shared + r * d->columns, d->columns);
}

void matmul_run_blas(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                     size_t y_stride, size_t tokens) {
    size_t step = min(w->columns, STEP_FLOATS / TILE_COLUMNS * TILE_COLUMNS), most = STEP_FLOATS / step;
    for (size_t row = 0; row < w->rows; row += most) {
        size_t rows = min(most, w->rows - row);
        for (size_t column = 0; column < w->columns; column += step) {
            size_t columns = min(step, w->columns - column);
            decoded_rows d = {m, w, row, column, columns};
            threads_for(m->pool, rows, THREADS_EVEN, decode_row, &d);
            blas_multiply(&(blas_product){.a = m->shared,
                                          .a_step = columns,
                                          .b = x + column * x_stride,
                                          .b_step = x_stride,
                                          .y = y + row * y_stride,
                                          .y_step = y_stride,
                                          .rows = rows,
                                          .columns = tokens,
                                          .inner = columns,
                                          .factor = 1,
                                          .add = column > 0});
        }
    }
}
