/* Gives tensors their types so that the output has a size asked for (gq_target). */
#pragma once

#include "quantize/plan/assign.h"
#include "quantize/plan/target/measure.h"

/* Whether an output has a target instead of a file type. */
bool plan_has_target(const gq_options *options, size_t output);
/* Checks the targets of all outputs; GQ_USAGE where one makes no sense. */
bool plan_check_target(const gq_options *options, gq_error *e);
/* Writes the label that an output is named after: "7.5GB", "4.6bpw". */
void plan_target_label(const gq_options *options, size_t output, char label[32]);
/* Gives the tensors of all outputs with a target their types: measures errors, or reads an earlier run's
 * measurements, and chooses. */
bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e);
