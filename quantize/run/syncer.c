#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "quantize/run/run.h"

/* Syncs, then records. Called with the lock held, which is released meanwhile, so that workers go on adding.
 */
static void syncer_record(syncer *k) {
    if (k->n == 0 || k->failed) return;
    uint8_t *slots = k->slots;
    size_t n = k->n;
    k->slots = NULL, k->n = k->capacity = 0;
    pthread_mutex_unlock(&k->lock);
    gq_error error;
    bool ok = output_sync(k->outputs, &error) && journal_write(k->journal, slots, n, &error);
    for (size_t i = 0; ok && i < n; i++) {
        uint64_t mark;
        memcpy(&mark, slots + i * k->journal->slot, 8);
        cache_written(k->cache, k->outputs, mark - 1);
    }
    free(slots);
    pthread_mutex_lock(&k->lock);
    if (ok)
        k->recorded += n;
    else
        k->failed = true, k->error = error;
}

static double next_time(const gq_plan *plan) { return clock_seconds() + plan->sync_ms / 1e3; }

static void *syncer_run(void *arg) {
    syncer *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->stop) {
        double due = next_time(k->outputs->plan), whole = floor(due);
        struct timespec until = {(time_t)whole, (long)(1e9 * (due - whole))};
        while (!k->stop && pthread_cond_timedwait(&k->wake, &k->lock, &until) != ETIMEDOUT) {
        }
        if (!k->stop) syncer_record(k);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

void syncer_start(syncer *k, const output_set *outputs, const journal *j, const cache *c) {
    *k = (syncer){
        .outputs = outputs, .journal = j, .cache = c, .started = true, .due = next_time(outputs->plan)};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    k->alone = threads_start(&k->thread, syncer_run, k) != 0;
}

bool syncer_add(syncer *k, uint64_t chunk_number, const chunk_sum *sums, gq_error *e) {
    pthread_mutex_lock(&k->lock);
    bool ok = !k->failed && memory_grow(&k->slots, &k->capacity, k->n + 1, k->journal->slot, e);
    if (ok) journal_fill(k->journal, k->slots + k->n++ * k->journal->slot, chunk_number, sums);
    if (ok && k->alone && clock_seconds() >= k->due) {
        k->due += 3600; /* one at a time */
        syncer_record(k);
        k->due = next_time(k->outputs->plan);
        ok = !k->failed;
    }
    if (k->failed && e) *e = k->error;
    pthread_mutex_unlock(&k->lock);
    return ok;
}

bool syncer_stop(syncer *k, bool record_rest, gq_error *e) {
    if (!k->started) return true;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    if (!k->alone) pthread_join(k->thread, NULL);
    pthread_mutex_lock(&k->lock);
    if (record_rest) syncer_record(k);
    bool ok = !k->failed;
    if (!ok && e) *e = k->error;
    pthread_mutex_unlock(&k->lock);
    free(k->slots);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    k->started = false;
    return ok;
}
