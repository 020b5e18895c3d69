/* Whether the input has the tensors that its architecture expects. */
#ifndef GQ_COMPLETE_H
#define GQ_COMPLETE_H

#include "quantize/plan/plan.h"

/* Fails where a tensor is missing, or has another shape than the metadata say; what may be right, and what
 * options->allow_missing lets pass, becomes a warning. Reads no weight. */
bool plan_check_complete(gq_plan *plan, const gq_options *options, gq_error *e);

#endif
