/* The bank of kimi-k3: states from before earlier layers, which a layer reads together with the state itself.
 */
#pragma once

#include "forward/graph/batch.h"

/* The input of a part of the layer: states of the bank and x, each times a share, which is a softmax of the
 * products of their norms with the slot's weights. Without a bank, or while it is empty, x itself. *stride:
 * of x, then of what is returned. */
const float *bank_read(forward_batch *b, weight_slot score, const float *x, size_t *stride);
/* Lets the bank take x where the layer does so; x is then 0, so the layer's mixer begins it anew. */
void bank_take(forward_batch *b, float *x, size_t stride);
