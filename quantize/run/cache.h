/* Uses the page cache, which belongs to the whole machine, with care.
 *
 * Input is asked for ahead of the workers. A run that is large beside the machine's memory gives back pages
 * that it no longer needs: input that was not cached before the run, output once it is safe on disk. A run
 * that is small leaves both cached, since whoever quantizes a model mostly goes on to use it.
 */
#pragma once

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
/* A worker begins chunk i: asks the system for the input of later chunks. */
void cache_ahead(cache *c, uint64_t i);
/* Chunk i will not be read again: its input may be given back. */
void cache_read(const cache *c, uint64_t i);
/* The outputs' bytes of chunk i are on disk: they may be given back. */
void cache_written(const cache *c, const output_set *outputs, uint64_t i);
