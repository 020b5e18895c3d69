/* A file that is there against what an output of the plan would be, as far as its header tells; the tensors'
 * bytes are run/reuse.c's. */
#ifndef GQ_PLAN_EARLIER_H
#define GQ_PLAN_EARLIER_H

#include "quantize/plan/plan.h"

/* Whether sizes and headers of an earlier file are those that the output will have, but for the checksums
 * that only a run finds. false: *why says in a clause about "it" what differs first. */
bool plan_compare_header(const gq_plan *plan, const plan_output *out, const model_source *earlier,
                         gq_error *why);
/* Whether a file of the input was modified after one of an earlier output. */
bool plan_input_is_newer(const gq_plan *plan, const model_source *earlier);

#endif
