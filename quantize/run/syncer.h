/* Makes finished chunks safe in the background: now and then syncs the outputs, then records in the journal
 * the chunks that were finished before that sync. Where the system starts no thread for that, the worker that
 * adds a chunk does it when it is time. */
#pragma once

#include <pthread.h>

#include "quantize/run/cache.h"
#include "quantize/run/journal.h"

typedef struct syncer {
    const output_set *outputs;
    const journal *journal;
    const cache *cache;
    pthread_t thread;
    bool started, alone; /* alone: no thread could be started */
    double due;          /* by clock_seconds, when to sync next, where there is no thread */
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop, failed; /* under the lock, as are all members below */
    gq_error error;
    uint8_t *slots; /* chunks that are finished and not yet recorded */
    size_t n, capacity;
    uint64_t recorded; /* chunks, by this run */
} syncer;

void syncer_start(syncer *k, const output_set *outputs, const journal *j, const cache *c);
/* Adds a chunk whose bytes have all been written. Fails when recording has failed. */
bool syncer_add(syncer *k, uint64_t chunk_number, const chunk_sum *sums, gq_error *e);
/* Ends the thread. record: what is left is made safe first. */
bool syncer_stop(syncer *k, bool record, gq_error *e);
