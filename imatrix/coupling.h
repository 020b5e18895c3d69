/* Makes the factors of a chain of codec/feedback.h from the metric of its rows: how much a row makes good of
 * each row before it. */
#ifndef GQ_IMATRIX_COUPLING_H
#define GQ_IMATRIX_COUPLING_H

#include <stdbool.h>
#include <stddef.h>

/* metric: n x n, symmetric; a tenth of its mean diagonal is added to the diagonal. factors: n x n by places
 * of the order in which a chain rounds rows, `together` at once: S_kj / S_kk at [k][j] for places j before k,
 * S the metric after the rows behind k are eliminated, from the last one on; else 0. Where S_kk is not above
 * 0 so is all of row k. scratch: n x n. */
void coupling_factors(const float *metric, size_t n, size_t together, float *factors, double *scratch);

#endif
