/* One product of matrices by a BLAS, where gquant is built with one (GQ_BLAS). It is called by its Fortran
 * name, which every BLAS has and which is the one that NVBLAS steps in for. How many threads it uses is its
 * own affair; so is the order of its sums, on which results then depend. */
#ifndef GQ_BLAS_H
#define GQ_BLAS_H

#include <stdbool.h>
#include <stddef.h>

extern void sgemm_(const char *trans_a, const char *trans_b, const int *m, const int *n, const int *k,
                   const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
                   const float *beta, float *c, const int *ldc);

/* y[rows][columns] (+)= factor a[rows][inner] b[inner][columns]. A matrix is stored row after row, a step
 * apart; a turned one is stored column after column. */
typedef struct blas_product {
    const float *a, *b;
    float *y;
    size_t a_step, b_step, y_step, rows, columns, inner;
    float factor;
    bool a_turned, b_turned, add;
} blas_product;

/* Fortran has matrices by columns, so what is y here is y turned there, and the factors change places. */
static inline void blas_multiply(const blas_product *p) {
    const int m = (int)p->columns, n = (int)p->rows, k = (int)p->inner, lda = (int)p->b_step,
              ldb = (int)p->a_step, ldc = (int)p->y_step;
    const float kept = p->add ? 1 : 0;
    sgemm_(p->b_turned ? "T" : "N", p->a_turned ? "T" : "N", &m, &n, &k, &p->factor, p->b, &lda, p->a, &ldb,
           &kept, p->y, &ldc);
}

#endif
