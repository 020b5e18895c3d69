/* Steps that rules name (arch/rules.h). */
#ifndef GQ_HF_STEPS_H
#define GQ_HF_STEPS_H

#include "hf/tensors/build.h"

#define STEP_DECLARE(member, function) hf_step function;
ARCH_STEPS(STEP_DECLARE)
#undef STEP_DECLARE

extern const arch_rename hf_common_renames[];
extern const char *const hf_common_left_out[];

#endif
