/* Checks the tensors of a folder, once all are made, and tells what config.json asks for and the GGUF will not have. */
#pragma once

#include "hf/tensors/build.h"

/* Fails for a tensor that is missing or of another shape, by the list of the architecture's row; warns of the rest. */
bool hf_build_doubt(const hf_build *b, gq_error *e);
/* Whether the config says that the embedding does not serve as the head, too. */
bool hf_build_needs_head(const hf_build *b);
