/* --override-kv: metadata that is set in the outputs. */
#ifndef GQ_OVERRIDE_H
#define GQ_OVERRIDE_H

#include "model/model.h"
#include "quantize/gquant.h"

/* Key-value pairs to set, in order; keys and values are owned. */
typedef struct plan_overrides {
    size_t n;
    model_kv *items;
} plan_overrides;

/* Read "KEY=TYPE:VALUE" items; types of keys that the model has are kept where the value fits. */
bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const model_source *model,
                         gq_error *e);
void plan_overrides_free(plan_overrides *overrides);

#endif
