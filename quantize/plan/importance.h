/* Importance data in a plan. */
#ifndef GQ_IMPORTANCE_H
#define GQ_IMPORTANCE_H

#include "quantize/plan/plan.h"

/* Open, filter and check the importance data. */
bool plan_open_importance(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor has data. */
bool plan_has_importance(const gq_plan *plan, const plan_source *source);
/* Say which tensors of an output got another type because they have none. */
bool plan_warn_raised(gq_plan *plan, const plan_output *out, const mix_choice *choices, gq_error *e);
/* Give a source its values; nothing happens where it has them, or where there are none. */
bool plan_cover_source(gq_plan *plan, plan_source *source, const gq_options *options, gq_error *e);
/* Give the sources that some output quantizes their values, and each output's tensors their coverage. */
bool plan_cover(gq_plan *plan, const gq_options *options, gq_error *e);
/* Warn of entries that the model has no tensor for, with the first of their names. */
bool importance_warn_unknown(const model_inputs *inputs, const model_source *model, warning_list *warnings,
                             gq_error *e);

#endif
