/* A small model for tests of targets, and plans for it. */
#pragma once

#include "tests/support/model.h"

/* in.gguf in the folder: tensors of several sizes; rows for short blocks only, rows for none, and experts.
 * Small, as it is measured often. imatrix.dat has an entry for one of them. */
void target_model(const char *folder);

/* A plan that must succeed; *measured: whether weights were measured. */
gq_plan *plan_for(gq_options o, bool *measured);
/* Types of all tensors of an output as text, malloc'ed. */
char *types_of(const gq_plan *plan, size_t output);
/* Of the first output; frees the plan. */
void assert_types(gq_plan *plan, const char *wanted);
