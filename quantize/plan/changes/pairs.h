/* Metadata that is set in the outputs (gq_options.override_kv), and what is left out (remove_kv). */
#pragma once

#include "base/warnings.h"
#include "gguf/gguf.h"
#include "gguf/model.h"
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

enum { REMOVE_OWN_KEYS = 11 }; /* that gquant writes whether the input has them or not */

/* Zeros: nothing is left out. */
typedef struct plan_removed {
    bool *pairs; /* one for each pair of the input; NULL: none */
    bool own[REMOVE_OWN_KEYS];
} plan_removed;

/* Finds the pairs whose keys match one of the patterns. What files cannot be read without stays. A pattern
 * without effect is warned of. The caller frees *removed, also after a failure. */
bool plan_removed_find(plan_removed *removed, const gq_list *patterns, const model_source *model,
                       warning_list *warnings, gq_error *e);
void plan_removed_free(plan_removed *removed);
/* Returns the model's pairs without those that are left out, malloc'ed; their values stay the model's. NULL: no memory. */
model_kv *plan_removed_rest(const plan_removed *removed, const model_source *model, uint64_t *n, gq_error *e);
/* Whether a pair of gquant's own is left out. */
bool plan_removed_has(const plan_removed *removed, const char *key);
/* Takes gquant's own pairs out of a header, but not those that are overridden. */
void plan_removed_apply(const plan_removed *removed, const plan_overrides *overrides, gguf_header *h);
