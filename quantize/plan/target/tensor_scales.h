/* Matrices that become NVFP4, with a factor for each beside them (gq_options.tensor_scales). */
#pragma once

#include "quantize/plan/plan.h"

/* Puts in front of the plan's model one in which such matrices are multiplied by a power of two and a tensor
 * NAME.scale beside each holds the inverse. From then on it is the plan's model. */
bool plan_scale_tensors(gq_plan *plan, const gq_options *options, gq_error *e);
