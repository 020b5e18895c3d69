/* Finds out, before the work, which tensors a run may copy from earlier outputs (plan/reuse.h). */
#pragma once

#include "quantize/run/results.h"

/* Returns for each output and tensor whether it is copied from an earlier output, malloc'ed; NULL: it failed.
 * The results get the sums. */
bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e);
