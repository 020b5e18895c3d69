/* What probes of a layer keep for the probes and the pass that follow: results of its products, which are the
 * same each time while the states before the layer and the weights that led to them stay. Of attention and
 * feed-forward parts these are the inputs of their last matrix, so that nothing before it is run again; of
 * other parts what each product gives.
 *
 * Each batch of a stream has a fixed number of bytes, in memory as long as that lasts, else in a file without
 * a name. What does not fit, or cannot be read again, is computed again: nothing that is written depends on
 * how much is kept. Nothing is kept once a run has used a weight that will be replaced, or has skipped an
 * expert whose output it needed. A file that takes longer than computing is used no more. */
#pragma once

#include "forward/graph/batch.h"
#include "forward/stream/stream.h"

/* Kept results of one batch of a stream. */
typedef struct cached_batch cached_batch;

/* A run of a batch, as what is kept sees it. */
typedef struct probe_cache_run {
    batch_results results; /* first: what the batch sees of it */
    probe_cache *of;       /* NULL: nothing is kept */
    cached_batch *batch;
    bool adds;        /* a probe; a pass only recalls */
    bool is_observed; /* somebody is told the inputs */
    size_t within;    /* results being computed, one as part of another */
    double started;   /* when the outermost of them was */
} probe_cache_run;

/* Begins a run of a batch: side 0 is the original's stream, 1 that of an output. */
probe_cache_run probe_cache_run_of(probe_cache *k, unsigned side, size_t batch, uint64_t tokens, bool adds,
                                   bool is_observed);
/* Forgets what a stream's batches have kept. */
void probe_cache_forget(probe_cache *k, unsigned side);
