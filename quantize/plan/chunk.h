/* Cuts the work into chunks: a chunk is a span of one tensor's elements, and the unit that workers take and
 * journals record. The cut depends on shapes alone, never on the number of threads.
 */
#pragma once

#include "gguf/model.h"

enum {
    /* Elements of a chunk: whole rows where they fit, else part of one row. 2^20 is about 5 ms of encoding,
     * so that threads end together, and makes a million chunks of a 10^12-weight model. */
    CHUNK_ELEMENTS = 1 << 20,
    /* Rows are taken in multiples of this where more of them fit: encoders work on so many at once. */
    CHUNK_ROWS = 16,
    /* Rows are cut at multiples of this only: the least common multiple of all types' block lengths. */
    CHUNK_GRAIN = 256,
    /* Least rows of a chunk of a tensor that is transposed on the way, however long they are: so many weights
     * that lie next to each other in the input are read at once. */
    CHUNK_BAND = 128,
};

typedef struct chunk_map {
    size_t n_tensors;
    uint64_t *first;  /* n_tensors + 1: number of each tensor's first chunk */
    uint64_t *length; /* n_tensors: elements of a tensor's chunks; the last one of it, or of a row, may be
                         shorter */
    uint64_t n;       /* chunks in all */
} chunk_map;

typedef struct chunk {
    size_t tensor;
    uint64_t first, n; /* elements, in the order in which they are stored */
    bool last;         /* of its tensor */
} chunk;

/* Returns the elements of a tensor's chunks, and how many chunks of that length it has. transposes: the
 * tensor is transposed on the way. */
uint64_t chunk_length(const uint64_t ne[GGUF_MAX_DIMS], bool transposes);
uint64_t chunk_count(const uint64_t ne[GGUF_MAX_DIMS], uint64_t length);
/* Allocates a map of zeros, which the caller fills and frees; also after a failure. */
bool chunk_map_new(chunk_map *map, size_t n_tensors, gq_error *e);
void chunk_map_free(chunk_map *map);
/* Return the tensor of chunk i, and the chunk. ne: the dimensions of that tensor. */
size_t chunk_tensor(const chunk_map *map, uint64_t i);
chunk chunk_at(const chunk_map *map, uint64_t i, const uint64_t ne[GGUF_MAX_DIMS]);
