/* Importance data in the making: sums of squares of what flows into the weights of a running model. */
#pragma once

#include "base/comm/ranks.h"
#include "forward/graph/forward.h"
#include "imatrix/imatrix.h"

/* A share of a text: groups of tokens (forward/stream/stream.h) from `begin` to `end` - 1. A process alone has all.
 */
typedef struct collection_share {
    size_t context; /* tokens of a window */
    uint64_t begin, end;
    uint64_t groups; /* of all ranks */
} collection_share;
/* The share of this rank in a text of so many windows. */
collection_share collection_share_of(const gq_comm *comm, size_t windows, size_t context);

/* Sums of the squared inputs of the weights reported so far, as a rule those of a layer. Sums are doubles: a
 * chain for each group of tokens, and groups are added in a fixed tree (base/comm/fold.h). So they depend neither
 * on batches nor on threads, nor on how many ranks have shares. */
typedef struct collection collection;
/* The tokens that will be reported are those of the share, numbered from 0. */
collection *collection_new(threads_pool *pool, collection_share share, gq_error *e);
void collection_free(collection *c);
/* Returns the observer for the calls that run the model. The collection must outlive it. */
forward_observer collection_observer(collection *c);
/* Gives rank 0 what all ranks have collected: a collective of base/comm/ranks.h. The other ranks then empty
 * theirs by collection_take. */
bool collection_gather(collection *c, gq_comm *comm, gq_error *e);
/* Hand everything out as entries, and begin anew. *im is empty before; on failure it is so again. */
bool collection_take(collection *c, imatrix *im, gq_error *e);

/* Bytes that a collection of a share takes with the layer that needs most, until that is handed out and
 * written; and of all entries' values. Of weights outside of layers only the one named `output`
 * (NULL: none) counts. UINT64_MAX: no memory to count them. */
typedef struct collection_sizes {
    uint64_t layer, entries;
} collection_sizes;
collection_sizes collection_measure(const model_source *m, size_t layers, const char *output,
                                    collection_share share, const gq_comm *comm);
