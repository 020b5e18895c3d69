/* Drafts that read the keys and values of a target's last layers: Gemma 4's assistants. */
#pragma once

#include "forward/graph/layer.h"

/* Of an assistant, whose first layer l is: x[D], its state, of both[2 W], embeddings and states of the target. */
bool forward_assistant_enter(forward_batch *b, const forward_layer *l, const float *both, size_t stride,
                             float *x, size_t x_stride, gq_error *e);
/* h[W]: the states for the next tokens, of normed[D]. */
bool forward_assistant_leave(forward_batch *b, const forward_layer *l, const float *normed, size_t stride,
                             float *h, size_t h_stride, gq_error *e);
/* Lets no position of the batch's texts see its own keys; to be called when they are cut (forward_batch_cut). */
void forward_assistant_cut(forward_batch *b);
