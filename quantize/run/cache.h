/* Good manners with the page cache, which belongs to the whole machine.
 *
 * Input is asked for ahead of the workers. A run that is large beside the machine's memory lets go of pages
 * that it has no more use for: input that was not cached before it came, output once it is safe on disk. A
 * run that is small leaves both cached, since whoever quantizes a model mostly goes on to use it.
 */
#ifndef GQ_CACHE_H
#define GQ_CACHE_H

#include <stdatomic.h>

#include "quantize/run/output.h"

typedef struct cache {
    const gq_plan *plan;
    uint64_t begin, end; /* chunks of this run */
    bool large;
    _Atomic uint64_t asked;    /* chunks before this one have been asked for */
    _Atomic uint8_t *was_cold; /* one bit per chunk of the run; NULL unless large */
} cache;

bool cache_new(cache *c, const gq_plan *plan, uint64_t begin, uint64_t end, gq_error *e);
void cache_free(cache *c);
/* A worker begins chunk i: ask for what comes some chunks later. */
void cache_ahead(cache *c, uint64_t i);
/* Chunk i has been read for the last time. */
void cache_read(const cache *c, uint64_t i);
/* The outputs' bytes of chunk i are on disk. */
void cache_written(const cache *c, const output_set *outputs, uint64_t i);

#endif
