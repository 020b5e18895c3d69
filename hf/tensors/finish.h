/* What some architectures' folders need when all tensors are known (arch/folder.h). */
#ifndef GQ_HF_FINISH_H
#define GQ_HF_FINISH_H

#include "hf/tensors/build.h"

/* Adds tensors that have no array. */
typedef bool hf_finish(hf_build *b, gq_error *e);

#define FINISH_DECLARE(member, function) hf_finish function;
ARCH_FINISHES(FINISH_DECLARE)
#undef FINISH_DECLARE

#endif
