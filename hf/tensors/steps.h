/* Steps that rules name (arch/rules.h), and what some folders need when all tensors are known (arch/folder.h). */
#pragma once

#include "hf/tensors/build.h"

#define STEP_DECLARE(member, function) hf_step function;
ARCH_STEPS(STEP_DECLARE)
#undef STEP_DECLARE

/* Adds tensors that have no array. */
typedef bool hf_finish(hf_build *b, gq_error *e);
#define FINISH_DECLARE(member, function) hf_finish function;
ARCH_FINISHES(FINISH_DECLARE)
#undef FINISH_DECLARE

extern const arch_rename hf_common_renames[];
extern const char *const *const hf_common_left_out;
