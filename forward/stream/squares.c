#include "forward/stream/stream.h"

enum { ROWS = 8 }; /* chains that continue side by side */

/* The square of a float is exact in a double, so that a fused multiply-add changes nothing. */
static void add_rows(const float *x, size_t stride, size_t tokens, double *sums) {
    double sum[ROWS];
    for (size_t r = 0; r < ROWS; r++) sum[r] = sums[r];
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < ROWS; r++) sum[r] += (double)x[r * stride + t] * (double)x[r * stride + t];
    for (size_t r = 0; r < ROWS; r++) sums[r] = sum[r];
}

typedef struct square_sums {
    const forward_inputs *in;
    double *sums;
} square_sums;

static void add_squares_of_rows(void *data, size_t i, int) {
    const square_sums *to = data;
    const forward_inputs *in = to->in;
    add_rows(in->x + i * ROWS * in->stride, in->stride, in->tokens, to->sums + i * ROWS);
}

void forward_add_squares(const forward_inputs *in, double *sums, threads_pool *pool) {
    size_t whole = in->features / ROWS;
    threads_for(pool, whole, THREADS_EVEN, add_squares_of_rows, &(square_sums){in, sums});
    for (size_t r = whole * ROWS; r < in->features; r++)
        for (size_t t = 0; t < in->tokens; t++)
            sums[r] += (double)in->x[r * in->stride + t] * (double)in->x[r * in->stride + t];
}
