/* Sums of squares of what flows into weights. */
#pragma once

#include "forward/graph/forward.h"

/* sums[c] += the squares of feature c, token after token; sums[in->features]. */
void forward_add_squares(const forward_inputs *in, double *sums, threads_pool *pool);
