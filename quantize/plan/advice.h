/* Warnings about a model before the work. */
#ifndef GQ_ADVICE_H
#define GQ_ADVICE_H

#include "quantize/plan/plan.h"

/* Adapters and importance data have nothing to quantize; what has an architecture that is no text is no
 * model. */
bool plan_check_kind(const gq_plan *plan, gq_error *e);
/* Warn of what the user may not know of the model: once its tensors have their types. */
bool plan_advise(gq_plan *plan, gq_error *e);

#endif
