#include <stdlib.h>

#include "base/checked.h"
#include "quantize/plan/plan.h"

/* Whole rows, or CHUNK_ELEMENTS of a longer row. No dimension is 0 and their product does not overflow: the
 * reader has checked that. */
uint64_t chunk_length(const uint64_t ne[GGUF_MAX_DIMS], bool transposes) {
    uint64_t rows = CHUNK_ELEMENTS / ne[0];
    if (transposes && rows < CHUNK_BAND)
        return (shape_rows(ne) < CHUNK_BAND ? shape_rows(ne) : CHUNK_BAND) * ne[0];
    if (rows > CHUNK_ROWS) rows -= rows % CHUNK_ROWS;
    return ne[0] > CHUNK_ELEMENTS ? CHUNK_ELEMENTS : rows * ne[0];
}

uint64_t chunk_count(const uint64_t ne[GGUF_MAX_DIMS], uint64_t length) {
    if (length < ne[0]) return shape_rows(ne) * ceil_div(ne[0], length);
    uint64_t per_chunk = length / ne[0];
    return ceil_div(shape_rows(ne), per_chunk);
}

bool chunk_map_new(chunk_map *map, size_t n_tensors, gq_error *e) {
    map->n_tensors = n_tensors;
    map->n = 0;
    map->first = calloc(n_tensors + 1, sizeof *map->first);
    map->length = calloc(n_tensors + 1, sizeof *map->length);
    return (map->first && map->length) || gq_fail_memory(e, 2 * (n_tensors + 1) * sizeof *map->first);
}

void chunk_map_free(chunk_map *map) { free(map->first), free(map->length); }

size_t chunk_tensor(const chunk_map *map, uint64_t i) {
    size_t low = 0, high = map->n_tensors; /* first[low] <= i < first[high] */
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (map->first[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

chunk chunk_at(const chunk_map *map, uint64_t i, const uint64_t ne[GGUF_MAX_DIMS]) {
    chunk c = {.tensor = chunk_tensor(map, i)};
    uint64_t k = i - map->first[c.tensor], length = map->length[c.tensor];
    uint64_t total = shape_elements(ne);
    c.last = i + 1 == map->first[c.tensor + 1];
    if (ne[0] <= length) {
        c.first = k * length;
        c.n = total - c.first < length ? total - c.first : length;
        return c;
    }
    uint64_t per_row = ceil_div(ne[0], length);
    uint64_t column = k % per_row * length;
    c.first = k / per_row * ne[0] + column;
    c.n = ne[0] - column < length ? ne[0] - column : length;
    return c;
}
