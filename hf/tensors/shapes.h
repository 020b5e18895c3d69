/* Whether a folder has the tensors that all such folders have, in the shapes that its config says. */
#ifndef GQ_HF_SHAPES_H
#define GQ_HF_SHAPES_H

#include "hf/tensors/build.h"

/* Checks the tensors by the list of the architecture's row; a row without one has nothing to check. */
bool hf_shapes_check(const hf_build *b, gq_error *e);

#endif
