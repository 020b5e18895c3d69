/* The layers that stay (gq_options.prune_layers, no_mtp, mtp_only), and the tensors that are written transposed
 * (transpose). */
#pragma once

#include "gguf/model.h"
#include "quantize/gquant_quantize.h"

/* Old numbers of the layers that stay, in order. n = 0: nothing is pruned. */
typedef struct plan_layers {
    uint64_t *kept;
    size_t n;
    size_t n_absent; /* layers asked for that the model does not have; `absent` is one of them */
    uint64_t absent;
    bool no_drafts; /* prediction blocks go, and no pair speaks of them */
    bool is_draft;  /* of the layers prediction blocks alone stay, from first_draft on, with their numbers */
    uint64_t first_draft;
} plan_layers;

/* Reads "3,7,11", the layers that go; NULL: none. layers->kept is malloc'ed and the caller's. */
bool plan_layers_read(plan_layers *layers, const char *list, const model_source *model, gq_error *e);
/* Leaves out a model's prediction blocks, besides the layers of a list, or all but these. A model without any is an error
 * where they alone were asked for. */
bool plan_layers_without_drafts(plan_layers *layers, const char *list, const model_source *model,
                                gq_error *e);
bool plan_layers_drafts_only(plan_layers *layers, const model_source *model, gq_error *e);
/* Writes a tensor's name in the outputs: with its layer's new number, or as it is. false: the tensor belongs
 * to a pruned layer. */
bool plan_layers_rename(const plan_layers *layers, const char *name, char to[GGUF_MAX_NAME + 1]);

/* Makes the sources that the options name be read transposed. Those that are stored transposed get their rows
 * and columns back. */
bool plan_transpose(gq_plan *plan, const gq_options *options, gq_error *e);
