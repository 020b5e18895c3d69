/* Products with weights by a BLAS in place of our own kernels: rows are decoded to floats, as many as fit,
 * and go into sgemm. It is called by its Fortran name, which every BLAS has and which is the one that NVBLAS
 * steps in for. How many threads it uses is its own affair; decoding them is spread over ours.
 */
#include "forward/matmul_scratch.h"

/* By column, as Fortran has matrices: what is y[rows][tokens] here is tokens x rows there. */
extern void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                   const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                   const float *beta, float *c, const int *ldc);

typedef struct decoded_rows {
    const matmul *m;
    const matmul_weights *w;
    size_t row, skipped, columns; /* the first row; bytes of a row before the first column */
} decoded_rows;

static void decode_row(void *data, size_t r, int thread) {
    const decoded_rows *d = data;
    (void)thread;
    d->m->codecs[d->w->type].decode((const uint8_t *)d->w->data + (d->row + r) * d->w->row_bytes + d->skipped,
                                    d->m->shared + r * d->columns, d->columns);
}

void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens) {
    size_t step = smaller(w->columns, STEP_FLOATS / TILE_COLUMNS * TILE_COLUMNS), most = STEP_FLOATS / step;
    for (size_t row = 0; row < w->rows; row += most) {
        size_t rows = smaller(most, w->rows - row);
        for (size_t column = 0; column < w->columns; column += step) {
            size_t columns = smaller(step, w->columns - column);
            decoded_rows d = {m, w, row, gguf_type_bytes(gguf_type_of(w->type), column), columns};
            threads_for(m->pool, rows, THREADS_EVEN, decode_row, &d);
            const int n = (int)tokens, n_rows = (int)rows, k = (int)columns, ldx = (int)x_stride,
                      ldy = (int)y_stride;
            const float one = 1, kept = column > 0 ? 1 : 0;
            sgemm_("N", "N", &n, &n_rows, &k, &one, x + column * x_stride, &ldx, m->shared, &k, &kept,
                   y + row * y_stride, &ldy);
        }
    }
}
