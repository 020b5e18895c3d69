/* A calibration that takes no longer than a given time. */
#pragma once

#include "quantize/quantize.h"

/* Makes plans of calibrations that take less and less, the best first, and returns the first one whose
 * forecast is within the seconds asked for. Where an unfinished run of one of them lies beside the outputs,
 * that is continued instead. What is chosen are tokens and steps, which the plan's facts have: a plan that is
 * asked for these makes the same bytes. */
gq_plan *calibration_plan_within(const gq_options *asked, plan_maker *make, gq_error *e);
