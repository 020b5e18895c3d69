/* How the work is cut: a chunk is a run of one tensor's elements, and the unit that workers take and journals
 * record. The cut depends on shapes alone, never on the number of threads.
 */
#ifndef GQ_CHUNK_H
#define GQ_CHUNK_H

#include "model/model.h"

enum {
    /* Elements of a chunk: whole rows where they fit, else part of one row. 2^20 is about 5 ms of encoding,
     * so that threads end together, and makes a million chunks of a 10^12-weight model. */
    CHUNK_ELEMENTS = 1 << 20,
    /* Rows are taken in multiples of this where more of them fit: encoders work on so many at once. */
    CHUNK_ROWS = 16,
    /* Rows are cut at multiples of this only: the least common multiple of all types' block lengths. */
    CHUNK_GRAIN = 256,
    /* Rows of a tensor that is transposed on the way, at least, however long: so many weights next to each
     * other in the input are read at once. */
    CHUNK_BAND = 128,
};

typedef struct chunk_map {
    size_t n_tensors;
    uint64_t *first;  /* n_tensors + 1: number of each tensor's first chunk */
    uint64_t *length; /* n_tensors: elements of each of a tensor's chunks but the last of it, or of a row */
    uint64_t n;       /* chunks in all */
} chunk_map;

typedef struct chunk {
    size_t tensor;
    uint64_t first, n; /* elements, counted in storage order */
    bool last;         /* of its tensor */
} chunk;

uint64_t chunk_length(const uint64_t ne[GGUF_MAX_DIMS], bool transposes);
uint64_t chunk_count(const uint64_t ne[GGUF_MAX_DIMS], uint64_t length);
bool chunk_map_new(chunk_map *map, size_t n_tensors, gq_error *e);
void chunk_map_free(chunk_map *map);
/* ne is that of the tensor that chunk i falls into (chunk_tensor). */
size_t chunk_tensor(const chunk_map *map, uint64_t i);
chunk chunk_at(const chunk_map *map, uint64_t i, const uint64_t ne[GGUF_MAX_DIMS]);

#endif
