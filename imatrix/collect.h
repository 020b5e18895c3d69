/* Importance data in the making: sums of squares of what flows into the weights of a running model. */
#ifndef GQ_IMATRIX_COLLECT_H
#define GQ_IMATRIX_COLLECT_H

#include "forward/forward.h"
#include "imatrix/imatrix.h"

/* Sums of the squared inputs of the weights reported so far, as a rule those of a layer. Sums are doubles,
 * added in the order of forward/groups.h, so that they depend neither on batches nor on threads. */
typedef struct collection collection;
collection *collection_new(threads_pool *pool, size_t context, gq_error *e); /* context: tokens of a window */
void collection_free(collection *c);
/* Returns the site for the calls that run the model. The collection must outlive it. */
forward_site collection_site(collection *c);
/* Hand everything out as entries, and begin anew. *im is empty before; on failure it is so again. */
bool collection_take(collection *c, imatrix *im, gq_error *e);

/* Bytes that a collection takes with the layer that needs most, until that is handed out and written; and of
 * all entries' values. Of weights outside of layers only the one named `output` (NULL: none) counts.
 * UINT64_MAX: no memory to count them. */
typedef struct collection_sizes {
    uint64_t layer, entries;
} collection_sizes;
collection_sizes collection_measure(const model_source *m, size_t layers, const char *output);

#endif
