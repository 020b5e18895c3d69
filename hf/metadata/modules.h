/* The modules of a sentence transformer, which modules.json lists: how states are pooled, and dense heads behind that.
 */
#pragma once

#include "hf/arrays/safetensors.h"
#include "hf/folder/config.h"
#include "hf/folder/pairs.h"

/* Reads modules.json and adds the arrays of dense modules to the list, as
 * dense_2.weight and dense_3.weight, where the architecture has such heads. */
bool hf_modules_add(hf_list *l, hf_config *c, gq_error *e);
/* Adds the pooling that modules.json has to the pairs of a decoder, whose list of items has none. */
bool hf_modules_pair(const hf_config *c, hf_pairs *p, gq_error *e);
