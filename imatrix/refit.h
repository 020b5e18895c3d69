/* Weights that are not rounded, fitted to the inputs that they get now: t = w + a w D H^-1, the target that
 * rounding has (codec/feedback.h), in double precision. */
#ifndef GQ_IMATRIX_REFIT_H
#define GQ_IMATRIX_REFIT_H

#include "imatrix/moments.h"

/* w: n rows of all columns, replaced by t. z: as many doubles, scratch. Rows are shared out to the pool's
 * threads; what comes out does not depend on them. */
void refit_rows(const moments_factored *f, threads_pool *pool, float *w, size_t n, double *z);

#endif
