/* The rows of all architectures, and what adds tensors that no array has. */
#ifndef GQ_HF_RULES_ARCH_H
#define GQ_HF_RULES_ARCH_H

#include "hf/rules.h"

/* Lists that end with zeros. */
extern const hf_arch_rules hf_plain_archs[];
extern const hf_arch_rules hf_mixed_archs[];

#endif
