/* Tells what config.json asks for and the GGUF will not have. */
#ifndef GQ_HF_DOUBTS_H
#define GQ_HF_DOUBTS_H

#include "hf/tensors/build.h"

/* Warns once all tensors are made. */
bool hf_build_doubt(const hf_build *b, gq_error *e);

#endif
