/* --prune-layers: which layers stay. */
#ifndef GQ_PRUNE_H
#define GQ_PRUNE_H

#include "model/model.h"

/* Old numbers of the layers that stay, in order. n = 0: nothing is pruned. */
typedef struct plan_layers {
    uint64_t *kept;
    size_t n;
    size_t n_absent; /* that the model does not have; `absent` is one of them */
    uint64_t absent;
} plan_layers;

/* Read "3,7,11". */
bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e);
/* New name of a tensor: renumbered, or as it is; false: it belongs to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

#endif
