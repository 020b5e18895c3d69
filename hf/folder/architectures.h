/* From a folder's class name to an architecture. */
#pragma once

#include "hf/folder/config.h"

/* Sets c->class_name, which must be a known one. */
bool hf_architecture_find_class(hf_config *c, gq_error *e);
/* Sets c->arch, by the class and the config's values; the layers are counted before. */
bool hf_architecture_decide(hf_config *c, gq_error *e);

/* Whether a layer of Granite's hybrid models has attention; others are recurrent. */
bool hf_granite_has_attention(const hf_config *c, uint64_t layer);

/* bailingmoe3: whether a layer has full attention, not a linear one; predicting blocks have. */
bool hf_bailing3_is_full(const hf_config *c, uint64_t layer);

/* Returns how many heads of keys a layer of DeciLM's has, of a model with `heads` and, where no layer has its own number,
 * `kv_heads`; 0: it has no attention, or the config has no such number. */
uint64_t hf_deci_kv_heads(const hf_config *c, uint64_t heads, uint64_t kv_heads, uint64_t layer);

/* Returns what a classifier's outputs are called, an object by their numbers; NULL: the config does not say, or only
 * what transformers makes up for two. */
const json_t *hf_classifier_labels(const hf_config *c);
