/* Steps that rules name (arch/rules.h), and what is computed when all tensors are known (arch/folder.h). */
#pragma once

#include "hf/tensors/build.h"

/* Does what a rule says for a source tensor. */
bool hf_build_step(hf_build *b, const hf_found *f, gq_error *e);
/* Computes what an architecture's folders need in the end (hf/tensors/computed.c). */
bool hf_build_finish(hf_build *b, gq_error *e);

#define STEP_DECLARE(member, function) hf_step function;
ARCH_STEPS(STEP_DECLARE)
#undef STEP_DECLARE

typedef bool hf_finish(hf_build *b, gq_error *e);
#define FINISH_DECLARE(member, function) hf_finish function;
ARCH_FINISHES(FINISH_DECLARE)
#undef FINISH_DECLARE
