/* Metadata that is set in the outputs (gq_options.override_kv). */
#ifndef GQ_OVERRIDE_H
#define GQ_OVERRIDE_H

#include "model/model.h"
#include "quantize/gquant_quantize.h"

/* Key-value pairs to set, in order; keys and values are owned. */
typedef struct plan_overrides {
    size_t n;
    model_kv *items;
} plan_overrides;

/* Reads "KEY=TYPE:VALUE" items, and the files that they name. A key that the model has keeps its type; a
 * value that does not fit it is refused with GQ_USAGE. *overrides is of zeros before; the caller frees it,
 * also after a failure. */
bool plan_overrides_read(plan_overrides *overrides, const gq_list *items, const model_source *model,
                         gq_error *e);
/* Returns the path in an item KEY=file:PATH; NULL: the item is another. */
const char *plan_override_file(const char *item);
/* Whether a key follows from the file's layout, so that it is neither set nor left out. */
bool plan_key_is_layout(const char *key);
void plan_overrides_free(plan_overrides *overrides);

#endif
