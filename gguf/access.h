/* For the files of gguf/ only: what a model in GGUF files lets others do with its tensors. */
#ifndef GQ_GGUF_ACCESS_H
#define GQ_GGUF_ACCESS_H

#include "gguf/gguf.h"

/* Its state is a gguf_container, which it frees. */
extern const model_container gguf_access;

#endif
