/* general.* and the architecture's own pairs. */
#pragma once

#include "hf/folder/config.h"
#include "hf/folder/pairs.h"

struct arch_item; /* arch/pairs.h */
struct hf_build;  /* hf/tensors/build.h */

/* Counts over the tensors of the model to be, for general.size_label; weights 0: it has none of these. */
typedef struct hf_counts {
    uint64_t weights;          /* elements of all tensors */
    uint64_t expert_weights;   /* of these, in stacked experts: names with _exps. and 3 dimensions */
    uint64_t per_expert;       /* sum of elements / experts over these tensors */
    uint64_t experts, stacked; /* sum of their numbers of experts; number of such tensors */
} hf_counts;

/* Sets the pairs of a list of items. */
bool hf_items_set(const struct arch_item *list, const hf_config *c, hf_pairs *p, gq_error *e);
/* The architecture's pairs, from the config alone. */
bool hf_arch_pairs(const hf_config *c, hf_pairs *pairs, gq_error *e);
/* Adds what tensors decide: numbers that GGUF has as metadata. */
bool hf_tensor_pairs(struct hf_build *b, hf_pairs *pairs, gq_error *e);
