/* The check of a model that is not run: in a build with a forward pass forward_model_check (forward/graph/forward.h),
 * which knows the tensors of each architecture. Whoever opens and writes models gets it handed in. */
#pragma once

#include "gguf/model.h"

typedef struct model_expected {
    const model_kv *set; /* KV pairs that count in place of the model's own */
    uint64_t n_set;
    bool (*may_lack)(void *user, const char *tensor); /* whether a tensor may be missing */
    void *user;
    warning_list *doubts; /* sentences about what may be right, and about what cannot be compared */
    bool without_blocks;  /* those that predict further tokens are not looked at: they are not wanted */
} model_expected;
typedef bool model_check(const model_source *g, const model_expected *expected, gq_error *e);
