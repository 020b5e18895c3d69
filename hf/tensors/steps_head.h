/* Whether a folder has, and needs, a head of its own. */
#ifndef GQ_STEPS_HEAD_H
#define GQ_STEPS_HEAD_H

#include "hf/tensors/build.h"

/* Whether the config says that the embedding does not serve as the head, too. */
bool hf_build_needs_head(const hf_build *b);
/* Warns where the config leaves it open. */
bool hf_build_check_head(const hf_build *b, gq_error *e);

#endif
