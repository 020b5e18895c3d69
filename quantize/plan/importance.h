/* Importance data in a plan. */
#pragma once

#include "quantize/plan/plan.h"

/* Reads, filters and checks the importance data; does nothing where the options name none. */
bool plan_open_importance(gq_plan *plan, const gq_options *options, gq_error *e);
/* Whether a tensor has data. */
bool plan_has_importance(const gq_plan *plan, const plan_source *source);
/* Warns which tensors of an output got another type because they have no data. */
bool plan_warn_raised(gq_plan *plan, const plan_output *out, const mix_choice *choices, gq_error *e);
/* Looks up a source's values, unless that was done before. A tensor without data is no failure. */
bool plan_cover_source(gq_plan *plan, plan_source *source, const gq_options *options, gq_error *e);
/* Looks up the values of all sources that some output quantizes, and sets the coverage of the outputs'
 * tensors. */
bool plan_cover(gq_plan *plan, const gq_options *options, gq_error *e);
/* Warns of entries that the model has no tensor for, with the first of their names. */
bool importance_warn_unknown(const model_inputs *inputs, const model_source *model, warning_list *warnings,
                             gq_error *e);
