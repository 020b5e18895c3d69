/* Checks and warnings about a model before the work. */
#pragma once

#include "quantize/plan/plan.h"

/* Fails for inputs that are no model to quantize: adapters, importance data, and files whose architecture is
 * no text. */
bool plan_check_kind(const gq_plan *plan, gq_error *e);
/* Warns of what the user may not know about the model. Called when its tensors have their types. */
bool plan_advise(gq_plan *plan, gq_error *e);

/* Fails where a tensor is missing, or has another shape than the metadata say; what may be right, and what
 * options->allow_missing lets pass, becomes a warning. Reads no weight. */
bool plan_check_complete(gq_plan *plan, const gq_options *options, gq_error *e);
