/* Metadata that is left out of the outputs (gq_options.remove_kv). */
#ifndef GQ_REMOVE_H
#define GQ_REMOVE_H

#include "base/warnings.h"
#include "gguf/gguf.h"
#include "gguf/header.h"
#include "model/model.h"
#include "quantize/gquant_quantize.h"
#include "quantize/plan/changes/override.h"

enum { REMOVE_OWN_KEYS = 10 }; /* that gquant writes whether the input has them or not */

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
/* Whether a pair of gquant's own is left out. */
bool plan_removed_has(const plan_removed *removed, const char *key);
/* Takes gquant's own pairs out of a header, but not those that are overridden. */
void plan_removed_apply(const plan_removed *removed, const plan_overrides *overrides, gguf_header *h);

#endif
