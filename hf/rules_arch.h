/* The rows of all architectures, and what adds tensors that no array has. */
#ifndef GQ_HF_RULES_ARCH_H
#define GQ_HF_RULES_ARCH_H

#include "hf/rules.h"

/* Lists that end with zeros. */
extern const hf_arch_rules hf_plain_archs[];
extern const hf_arch_rules hf_mixed_archs[];

bool hf_finish_rope(hf_build *b, gq_error *e); /* rope_freqs, where the rotation's type is llama3 */
bool hf_finish_factors(hf_build *b,
                       gq_error *e); /* rope_factors_long and _short, where the config has them */
bool hf_finish_proportional(hf_build *b, gq_error *e); /* gemma 4's rope_freqs */
bool hf_finish_residuals(hf_build *b, gq_error *e);    /* kimi-k3: products of a norm and a projection */

#endif
