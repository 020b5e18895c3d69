/* Pooling in embedding models: a vector for each window from the hidden states after the last layer. */
#pragma once

#include "forward/graph/keys.h"
#include "forward/graph/model.h"

/* Reads how hidden states are pooled. Without a key, or where it says that they are not, it is the mean; what
 * is classified is the first state, or by the key classifier.pooling_type the mean. */
void pooling_read_keys(forward_model *m, key_reader *r);

/* Pools each window of the batch: `normed` is what forward_final gave. Then the model's dense matrices
 * follow, in binary64. to: [windows][forward_sizes.embedded]; a vector's length says nothing. */
bool forward_pool(forward_batch *b, const float *normed, size_t stride, double *to, gq_error *e);
