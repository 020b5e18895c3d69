/* From a folder's class name to an architecture. */
#ifndef GQ_HF_ARCHITECTURES_H
#define GQ_HF_ARCHITECTURES_H

#include "hf/config.h"

/* Sets c->class_name and c->arch. */
bool hf_architecture_find(hf_config *c, gq_error *e);

/* Whether a layer of Granite's hybrid models has attention; others are recurrent. */
bool hf_granite_has_attention(const hf_config *c, uint64_t layer);

#endif
