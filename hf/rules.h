/* The tables of rules. */
#ifndef GQ_HF_RULES_H
#define GQ_HF_RULES_H

#include "hf/steps.h"

#define P(from, to, step) \
    { "model.layers.#." from, "blk.#." to, step }

extern const hf_rule hf_latent_rules[];   /* attention by way of a narrow vector, as DeepSeek's */
extern const hf_rule hf_permuted_rules[]; /* queries and keys whose pairs are halves apart, as llama's */
extern const char *const hf_granite_left_out[];
extern const hf_rename hf_thinker_renames[];
extern const hf_rename hf_ernie_renames[];

#endif
