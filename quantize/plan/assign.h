/* Gives the tensors of outputs their types, by the mixes. */
#pragma once

#include "quantize/plan/plan.h"

/* The input and output of choosing types. Tensors are in output order, plan->n_tensors of them. */
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

/* Fills *a and allocates the tensors of all outputs. The caller frees *a, also after a failure. */
bool plan_assignment_new(plan_assignment *a, gq_plan *plan, const gq_options *options, gq_error *e);
void plan_assignment_free(plan_assignment *a);
/* Gives the tensors of an output their types. It may be called again with other a->options. */
bool plan_assign(gq_plan *plan, plan_assignment *a, size_t output, gq_error *e);
/* Checks that all chosen types can be written. Called when they are final. */
bool plan_check_types(const gq_plan *plan, const plan_assignment *a, const gq_options *options, gq_error *e);
/* Warns of patterns without effect, which are mostly slips. */
bool plan_warn_patterns(gq_plan *plan, const plan_assignment *a, gq_error *e);

/* Sets the output's file type, and the recipe of its name if that has one. */
bool plan_open_filetype(plan_output *out, const char *name, gq_error *e);
