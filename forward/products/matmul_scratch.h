/* Sizes and panels that the files behind matmul.h share. */
#pragma once

#include "base/checked.h"
#include "codec/codec.h"
#include "forward/products/matmul.h"

/* Sizes of what is worked on at once. A tile of weights, decoded, and a panel of tokens at the same columns
 * share a core's second cache; the activations of a step are packed once, into panels, and serve all threads.
 * None of these numbers has a bearing on results. */
enum {
    TILE_ROWS = 192,     /* a multiple of all kernels' rows */
    TILE_COLUMNS = 512,  /* a multiple of all types' blocks */
    TILE_GAP_BYTES = 64, /* rows of a tile shall not share a set of a cache */
    TILE_STRIDE = TILE_COLUMNS + TILE_GAP_BYTES / sizeof(float),
    STEP_TOKENS = 2048,
    STEP_FLOATS = STEP_TOKENS * 2048,
    UNITS = 8, /* per thread, so that none waits long for the last one */
};
typedef struct matmul_scratch {
    float floats[TILE_ROWS * TILE_STRIDE]; /* a tile of decoded weights, or a panel of tokens */
} matmul_scratch;
_Static_assert((int)TILE_ROWS >= (int)MATMUL_MOST_PANEL, "it holds a panel");

struct matmul {
    const kernels *level;
    const product_kernels *by, *floats; /* of weights; of floats within a thread */
    threads_pool *pool;
    float *shared;             /* STEP_FLOATS */
    matmul_scratch *scratches; /* one per thread */
};

/* matmul_run by tiles, and, for kernels that share out their work themselves, by as many rows as fit (both
 * matmul_weights.c). */
typedef void matmul_run_by(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                           size_t y_stride, size_t tokens);
matmul_run_by matmul_run_tiles, matmul_run_whole;
