/* Shared by the sublayers of draft models (draft.h). */
#pragma once

#include "forward/graph/attention/attention.h"
#include "forward/graph/keys.h"
#include "forward/graph/model.h"
#include "forward/graph/sublayer.h"

/* Adds what the draft takes of its target, of which there are not DRAFT_SOURCES yet. */
void draft_take(forward_model *m, draft_source s);
/* Takes the hidden states before the layers of the key target_layers. */
void draft_read_layers(forward_model *m, key_reader *r);

/* The product with a weight of a layer that is not run now. */
typedef struct draft_flow {
    const float *x;
    float *y;
    size_t stride, y_stride;
} draft_flow;
bool draft_apply(forward_batch *b, const forward_layer *l, weight_slot s, const draft_flow *f, gq_error *e);
