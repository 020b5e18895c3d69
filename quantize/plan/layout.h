/* Lays out an output's files. */
#pragma once

#include "quantize/plan/plan.h"

/* Makes shards, headers, offsets and sizes of an output whose tensors have their types. A layout from an
 * earlier call is freed. */
bool plan_layout(gq_plan *plan, plan_output *out, const gq_options *options, gq_error *e);
void plan_layout_free(plan_output *out);
