/* Steps that rules name (arch/rules.h). */
#ifndef GQ_HF_STEPS_H
#define GQ_HF_STEPS_H

#include "hf/build.h"

#define STEP_DECLARE(member, function) hf_step function;
ARCH_STEPS(STEP_DECLARE)
#undef STEP_DECLARE

/* Does what the found rule says. */
bool hf_step_do(hf_build *b, const hf_found *f, gq_error *e);

extern const arch_rename hf_common_renames[];
extern const char *const hf_common_left_out[];

#endif
