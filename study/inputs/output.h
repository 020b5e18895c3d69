/* The error of a matrix's output after rounding, on tokens that it was not calibrated with. */
#pragma once

#include "forward/products/matmul.h"

/* The weights as they were with the inputs x of the base model, or what became of them with the inputs y
 * of the rounded one; feature-major. */
typedef struct output_side {
    matmul_weights weights;
    const float *x;
    size_t stride;
    const float *more; /* [rows][stride]: added to the output; NULL: nothing is */
    /* Of the base model alone, rows x rows of its weights, G: d G d^T takes the place of the sum of d^2 over
     * the rows of a token's errors d. NULL: that sum. */
    const float *metric;
} output_side;

enum { OUTPUT_MOST_ROUNDED = 4 };
typedef struct output_errors {
    double power;                      /* sum of |X W|^2, by the metric; added to */
    double error[OUTPUT_MOST_ROUNDED]; /* sums of |X W - Y Q|^2, of each that was asked for; added to */
} output_errors;

enum { OUTPUT_SPAN = 16 }; /* rows whose errors are added up by themselves; by a metric all are */
/* Compares n ways of rounding the same weights, rounded[n], n at most OUTPUT_MOST_ROUNDED. sums: one for each
 * OUTPUT_SPAN rows, so that these can be compared a span at a time by whoever has it; with a metric one.
 * Sums do not depend on the number of threads. Not from inside a loop of the pool. False: no memory. */
bool output_compare(matmul *m, const output_side *base, const output_side *rounded, size_t n, size_t tokens,
                    output_errors *sums, gq_error *e);
/* Adds up the errors of so many spans, in their order. */
void output_errors_add(output_errors *to, const output_errors *spans, size_t n);
/* Bytes that output_compare takes meanwhile. most_rows: of the largest metric; 0: there is none. */
uint64_t output_bytes(size_t most_rows);
