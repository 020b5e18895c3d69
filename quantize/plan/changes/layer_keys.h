/* Metadata that speak of layers, as they read after some were pruned (gq_options.prune_layers). */
#pragma once

#include "gguf/gguf.h"
#include "quantize/plan/plan.h"

/* Fails where a tensor holds something for every layer, which cannot be cut; warns where the remaining layers
 * would be computed in another way than before. */
bool plan_check_layers(gq_plan *plan, gq_error *e);

/* Copies a pair: lists without the entries of pruned layers, numbers of first or last layers counted anew,
 * all others as they are. */
bool plan_layer_key_copy(const gq_plan *plan, const model_kv *kv, gguf_header *h, gq_error *e);
/* Writes a list for what was told by a period that no longer fits. */
bool plan_layer_lists_write(const gq_plan *plan, gguf_header *h, gq_error *e);
/* Writes the number of layers that are left. */
bool plan_layer_count_write(const gq_plan *plan, gguf_header *h, gq_error *e);
