/* Rows of a layer's weights that are not in memory; layer_rows.c says which these are. */
#ifndef GQ_GRAPH_LAYER_ROWS_H
#define GQ_GRAPH_LAYER_ROWS_H

#include "graph/model.h"

/* The fewest bytes that a layer takes, with no matrix in memory but those at work. */
uint64_t layer_plan_least(const layer_plan *plan);

/* Rows of each weight that are in memory where a layer may take `most` bytes (forward_layer_new). */
void layer_choose_held(const layer_plan *plan, uint64_t most, uint64_t held[WEIGHT_SLOTS]);
/* Bytes of memory for rows that are read when they are multiplied; `most` as above. */
uint64_t layer_window_bytes(const layer_plan *plan, uint64_t most);

/* Returns rows of a weight of the layer from row `first` on, in the type that products take: *n of them,
 * which may be fewer than were asked for. They are valid until the next call. NULL: *e says why they could
 * not be read. */
const uint8_t *layer_rows(const forward_layer *l, weight_slot s, uint64_t first, uint64_t *n,
                          threads_pool *pool, gq_error *e);

#endif
