/* Blocks behind the main ones that predict further tokens (docs/hugging-face.md). */
#pragma once

#include "hf/arrays/safetensors.h"
#include "hf/folder/config.h"

/* Sets c->predicting: as many as the config announces, if the arrays have any of them. */
bool hf_predicting_find(hf_config *c, const hf_list *l, gq_error *e);
/* Gives an array of such a block the name that a main block's would have. False: it is to be left out. */
bool hf_predicting_rename(const hf_config *c, char *name, size_t size);
