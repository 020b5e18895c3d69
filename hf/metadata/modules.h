/* The modules of a sentence transformer, which modules.json lists: how states are pooled, and dense heads behind that.
 */
#ifndef GQ_HF_METADATA_MODULES_H
#define GQ_HF_METADATA_MODULES_H

#include "hf/arrays/safetensors.h"
#include "hf/folder/config.h"

/* Reads modules.json, where the architecture is an encoder's, and adds the arrays of dense modules to the list, as
 * dense_2.weight and dense_3.weight, where the architecture has such heads. */
bool hf_modules_add(hf_list *l, hf_config *c, gq_error *e);

#endif
