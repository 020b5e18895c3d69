/* Metadata of the output: what overrides and pruned layers make of the input's. */
#ifndef GQ_META_H
#define GQ_META_H

#include "quantize/plan/plan.h"

/* ---- prune.c ---- */
/* Read "3,7,11" and find which layers stay. */
bool plan_layers_read(plan_layers *layers, const char *list, const gguf_model *model, gq_error *e);
/* New name of a tensor: renumbered, or as it is; false: it belongs to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

/* ---- override.c ---- */
/* Read "KEY=TYPE:VALUE" items; types of keys that the model has are kept where the value fits. */
bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const gguf_model *model,
                         gq_error *e);
void plan_overrides_free(plan_overrides *overrides);

/* ---- meta.c ---- */
/* What else but text the key may hold is no model. */
bool plan_check_architecture(const gq_plan *plan, gq_error *e);
/* The output's metadata, all but the split keys. */
bool plan_meta_write(const gq_plan *plan, const plan_output *out, const gq_options *options, gguf_header *h,
                     gq_error *e);

#endif
