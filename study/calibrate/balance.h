/* Scales moved from columns that are far from the others to the weights that make what these columns read.
 *
 * Trained models have a few columns whose inputs are 10 to 300 times larger than the others and whose weights
 * are smaller by as much. A block has one scale for 16 or 32 columns, so such a column's weights become zero,
 * or a multiple of what they are. Multiplied by a power of two, with what makes the inputs divided by it, the
 * model gives the same logits, and the column is like the others (forward/graph/forward.h has what makes
 * what). */
#pragma once

#include "codec/codec.h"
#include "forward/graph/forward.h"
#include "gguf/scales.h"

typedef struct balance_scales {
    model_scales *scales; /* NULL: no column stands out */
    uint64_t columns;     /* that are multiplied, of all groups */
} balance_scales;

/* Probes a sample of the rows of all matrices of the model, whose source has no scales so far. The caller
 * frees what is found. */
bool balance_find(const kernels *k, const model_source *source, const forward_model *m, balance_scales *found,
                  gq_error *e);
