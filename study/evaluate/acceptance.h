/* How often a prediction block's first choice is the model's own: what drafting tokens with it is worth. */
#pragma once

#include "forward/stream/stream.h"
#include "study/evaluate/figures.h"

/* The positions from, ..., from + n - 1 of each window, the first of which is number `first` of the model's scores, *to. */
typedef struct acceptance_places {
    size_t from, n, first;
    model_scores *to;
} acceptance_places;

/* Runs the first prediction block of model m behind the states of its stream, which stay, and compares its choices with
 * to->top. Does nothing for a model without one. */
bool acceptance_run(forward_run *r, forward_stream *s, const forward_model *m, const acceptance_places *p,
                    gq_error *e);
/* Bytes of a model's `scored` positions, and of a batch's. */
uint64_t acceptance_bytes(size_t scored, size_t batch);
