/* Sparse attention by blocks of keys that all heads choose together, each by the mean of its tokens' keys. Parts of
 * block_choice.c, which calls them. */
#ifndef GQ_FORWARD_POOLED_CHOICE_H
#define GQ_FORWARD_POOLED_CHOICE_H

#include "graph/attention/attention.h"
#include "graph/layer_part.h"

void pooled_choice_read_keys(forward_model *m, key_reader *r, model_part *p);
/* Whether a window has more tokens than each of them attends to. */
bool pooled_choice_is_needed(const forward_batch *b, const block_numbers *c);
/* Makes the choice of queries q, normed and turned, and of keys that it makes of what flows in, x, in k. */
const uint64_t *pooled_choice_make(forward_batch *b, const plan_part *p, const float *x, size_t stride,
                                   const float *q, float *k);

#endif
