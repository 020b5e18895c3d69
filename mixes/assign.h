/* Each tensor's type, by rules, patterns and options. */
#pragma once

#include "mixes/mixes.h"

mix_model mix_model_of(const model_facts *f); /* arch is the facts' own */

/* Whether an option may give the tensor another type. Norms, biases and the like always keep theirs. */
bool mix_may_change(const mix_tensor *tensor);

/* Whether the tensor must not get this type without importance data. */
bool mix_demands_importance(const char *name, uint32_t type);

/* The order in which the rules count tensors, and in which they are written: by (block number, name), or as
 * given with keep_order. order[n] receives indices into tensors. */
bool mix_order(const mix_tensor *tensors, size_t n, bool keep_order, uint32_t *order, gq_error *e);

/* choices[i] is for tensors[i] (input order). Fails where the rules say that a run must not start, naming the
 * tensor; missing importance data is only flagged (needs_imatrix). */
bool mix_assign(const mix_model *model, const mix_options *options, const mix_tensor *tensors, size_t n,
                const uint32_t *order, mix_choice *choices, gq_error *e);

/* The file type that a file is called by whose types were chosen otherwise: that of most weights. */
const mix_filetype *mix_prevalent(const mix_tensor *tensors, const mix_choice *choices, size_t n);
