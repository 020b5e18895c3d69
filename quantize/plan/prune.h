/* The layers that stay (gq_options.prune_layers). */
#ifndef GQ_PRUNE_H
#define GQ_PRUNE_H

#include "model/model.h"

/* Old numbers of the layers that stay, in order. n = 0: nothing is pruned. */
typedef struct plan_layers {
    uint64_t *kept;
    size_t n;
    size_t n_absent; /* layers asked for that the model does not have; `absent` is one of them */
    uint64_t absent;
} plan_layers;

/* Reads "3,7,11", the layers that go. layers->kept is malloc'ed and the caller's. */
bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e);
/* Writes a tensor's name in the outputs: with its layer's new number, or as it is. false: the tensor belongs
 * to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

#endif
