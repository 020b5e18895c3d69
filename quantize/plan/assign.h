/* Types of tensors, by the mixes. */
#ifndef GQ_ASSIGN_H
#define GQ_ASSIGN_H

#include "quantize/plan/plan.h"

/* The input of choosing types. */
typedef struct plan_assignment {
    mix_model model;
    mix_options options;
    mix_pattern *patterns, *keep;
    mix_tensor *tensors;
    uint32_t *order;
    uint32_t *types;     /* options.types, for a target */
    bool *covered;       /* options.covered */
    mix_choice *choices; /* n_outputs x n_tensors */
} plan_assignment;

/* Get ready, with room for the tensors of all outputs; to be freed in any case. */
bool plan_assignment_new(plan_assignment *a, gq_plan *plan, const gq_options *options, gq_error *e);
void plan_assignment_free(plan_assignment *a);
/* Give the tensors of an output their types; may be done again with other options. */
bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e);
/* Whether all that was chosen can be done. */
bool plan_check_types(const gq_plan *plan, const plan_assignment *a, const gq_options *options, gq_error *e);
/* A slip in a pattern shows in that it does nothing: say so. */
bool plan_warn_patterns(gq_plan *plan, const plan_assignment *a, gq_error *e);

#endif
