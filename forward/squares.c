#include "forward/squares.h"

enum { ROWS = 8 }; /* chains that go on side by side */

/* The square of a float is exact in a double, so that a fused multiply-add changes nothing. */
static void add_rows(const float *x, size_t stride, size_t tokens, double *sums) {
    double sum[ROWS];
    for (size_t r = 0; r < ROWS; r++) sum[r] = sums[r];
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < ROWS; r++) sum[r] += (double)x[r * stride + t] * (double)x[r * stride + t];
    for (size_t r = 0; r < ROWS; r++) sums[r] = sum[r];
}

static void add_row(const float *x, size_t tokens, double *sum) {
    for (size_t t = 0; t < tokens; t++) *sum += (double)x[t] * (double)x[t];
}

void forward_add_squares(const forward_inputs *in, double *sums, int threads) {
    size_t whole = in->features / ROWS * ROWS;
#pragma omp parallel for num_threads(threads)
    for (size_t r = 0; r < whole; r += ROWS)
        add_rows(in->x + r * in->stride, in->stride, in->tokens, sums + r);
    for (size_t r = whole; r < in->features; r++) add_row(in->x + r * in->stride, in->tokens, sums + r);
}
