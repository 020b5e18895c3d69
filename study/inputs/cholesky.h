/* The Cholesky factor of a Hessian, by which rounding errors are made good. */
#pragma once

#include "study/inputs/hessian.h"

/* Counts what cholesky_factor does, in a ledger that has counted the Hessian: its own matrices join them, then
 * all but these and the sums of differences is released. */
void cholesky_count_memory(hessian_shape shape, memory_ledger *l);

/* Fills settings from a request: 0 stands for the default, a negative number for none. */
bool hessian_settings_take(hessian_settings *s, float damp, float shrink, float gptaq_a, gq_error *e);

/* With little text D is noise: T / (T + 3 n) for T tokens and n columns. */
float hessian_gptaq_a(uint64_t tokens, size_t columns);

/* Uses up the Hessian, which after that can only be freed, before f or after it. False: no memory. */
bool cholesky_factor(hessian *m, hessian_settings settings, cholesky *f, gq_error *e);
/* Makes ready for products over several strips in this arithmetic: for bf16 what they take is rounded in place
 * (codec/feedback.h), and refit_rows cannot go by it after that. */
void cholesky_round(cholesky *f, matmul_arithmetic arithmetic, threads_pool *pool);
void cholesky_free(cholesky *f);

/* Which rows of a matrix are fitted, where P is given in place of D. */
typedef struct refit_place {
    const uint64_t *rows; /* their numbers */
    uint64_t matrix_rows;
} refit_place;
/* Fits weights that are not rounded to the inputs that they get now: t = w + a u, the target that rounding has
 * (codec/feedback.h), in double precision; u = w D H^-1 or p H^-1. w: n rows of all columns, replaced by t. z: as many
 * doubles, gets u. at: NULL where D is given. Rows are shared out to the pool's threads; what comes out does not depend
 * on them. */
void refit_rows(const cholesky *f, threads_pool *pool, const refit_place *at, float *w, size_t n, double *z);
