/* Types of tensors, by a size asked for. */
#ifndef GQ_TARGET_H
#define GQ_TARGET_H

#include "quantize/plan/assign.h"

/* Whether a size is asked for instead of a file type. */
bool plan_has_target(const gq_options *options, size_t output);
bool plan_check_target(const gq_options *options, gq_error *e);
/* Writes the label that an output is named after: "7.5GB", "4.6bpw". */
void plan_target_label(const gq_options *options, size_t output, char label[32]);
/* Give the tensors of all outputs that have a target their types, by measuring. */
bool plan_targets(gq_plan *plan, plan_assignment *a, const gq_options *options, gq_error *e);

#endif
