/* Products of weights as they are stored with activations, by all threads; and of floats, by one thread that
 * is at work on a piece of its own (scores of attention). Products of whole packed matrices, as of Hessians
 * and their Cholesky factors, are in product.h. Both go to the kernels of an arithmetic (codec/tile.h). So
 * do, directly, threads that have a few rows at hand: a pass of rounding (codec/simd/pass.h,
 * quantize/arrays/arrays.c) and the root's triangles (study/inputs/cholesky.c).
 *
 * Activations lie feature-major: x[column][token], element (c, t) at x[c * stride + t]. Weights are rows of
 * any type that codec/ decodes, and stay in it until just before use. y[row][token] = sum over columns of
 * w[row][column] x[column][token]: each output is one chain of fused multiply-adds over columns in ascending
 * order, starting from 0 (of multiplications and additions where a level lacks the fused one: x86-64-v2). So
 * results depend neither on the number of threads, nor on how much is asked for at once, nor on the other
 * levels. Where a BLAS multiplies the weights (a build with GQUANT_BLAS), results are its own; products of
 * floats stay ours.
 *
 * Memory is taken by matmul_new alone. No call checks sizes: strides are at least what a row holds, y
 * overlaps neither w nor x. Floats of y beyond the tokens asked for stay as they were; strides and addresses
 * may be any, multiples of 16 floats are fastest. */
#pragma once

#include "base/checked.h"
#include "base/error.h"
#include "base/threads.h"
#include "codec/codec.h"

typedef struct matmul matmul;

/* "float32" or "bf16"; NULL: float32. */
bool matmul_arithmetic_take(matmul_arithmetic *to, const char *name, gq_error *e);
extern const char *const matmul_arithmetic_names[];
/* A caution about an arithmetic at this level, a sentence; NULL: none. */
const char *matmul_arithmetic_caution(matmul_arithmetic arithmetic, const kernels *k);

/* For the threads of a pool, which lives as long, with the kernels of this level. NULL: no memory. */
matmul *matmul_new(const kernels *k, threads_pool *pool, gq_error *e);
/* Sets the arithmetic of matmul_run; float32 at first. In bf16 (codec/tile.h) weights and activations are rounded,
 * groups begin at column 0, and our own kernels do it with a BLAS, too. matmul_within stays. */
void matmul_set_arithmetic(matmul *m, matmul_arithmetic arithmetic);
void matmul_free(matmul *m);
/* Bytes that matmul_new takes for this number of threads. */
uint64_t matmul_bytes(int threads);
threads_pool *matmul_pool(const matmul *m);

/* Weights as they are stored. */
typedef struct matmul_weights {
    const void *data;
    uint32_t type; /* GGUF id; its codec has a decoder */
    size_t rows;
    size_t columns; /* whole blocks */
} matmul_weights;

/* y = w x, by all threads. Not from inside a loop of the pool. */
void matmul_run(matmul *m, const matmul_weights *w, const float *x, size_t x_stride, float *y,
                size_t y_stride, size_t tokens);

/* A product of floats, for attention: rows x columns by columns x tokens. */
typedef struct matmul_product {
    const float *w; /* element (row, column) at w[row * w_stride + column] */
    const float *x;
    float *y;
    size_t w_stride, x_stride, y_stride;
    size_t rows, columns, tokens;
    bool transposed; /* w's element (row, column) is at w[column * w_stride + row] instead */
} matmul_product;

/* The same product by the calling thread alone, inside a loop of the caller's, which gave it this number. */
void matmul_within(matmul *m, int thread, const matmul_product *p);

/* For tests, which put other kernels in. */
struct matmul {
    const kernels *level;
    const product_kernels *by, *floats; /* of weights; of floats within a thread */
    threads_pool *pool;
    float *shared;                    /* activations of a step */
    struct matmul_scratch *scratches; /* one per thread */
};
