/* From a folder's class name to an architecture. */
#pragma once

#include <jansson.h>

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

enum { GRANITE_MOST = 256 };

/* One of two kinds: of a layer each, or of places in the image. They are counted in the order of the text model's
 * layers that they go to. */
typedef struct granite_projector {
    json_int_t sees, text;
    bool is_spatial;
    uint32_t number; /* among those of its kind */
} granite_projector;

/* Granite's projectors: which layers of the vision encoder they read, and which of the text model they go to. Reads
 * deepstack_layer_map and spatial_target_layers; *n: how many there are. */
bool granite_projectors(const hf_config *c, granite_projector list[GRANITE_MOST], size_t *n, gq_error *e);
