/* A run as stream.c and head.c see it. */
#pragma once

#include "forward/graph/batch.h"
#include "forward/graph/layer.h"
#include "forward/stream/stream.h"

/* The hidden states of all windows of a stream, in memory or in slots of a file. */

typedef struct hidden_states {
    size_t width, context, windows, batch; /* batch: windows of one, but for the last of a loop */
    size_t loops;                          /* each has hidden states of all windows; batches are within one */
    size_t batches;
    float **held;            /* per batch [width][stride]; NULL: hidden states are in the file */
    float *x;                /* hidden states of the batch that was read from the file */
    float *window;           /* a window on its way to or from the file; NULL: there is no file */
    hidden_state_slots file; /* fd -1: nowhere */
    unsigned slot;           /* slot of the hidden states before the layer that is next, or was begun */
    bool begun;              /* the hidden states are those after the layer's first sublayer */
    /* Per loop: CRC-32 of the bytes written so far to the slot after the present one; forward_stream_sum. */
    uint64_t *running, *sums;
} hidden_states;

/* Windows in a batch, and the floats from one of its features to the next. */
size_t hidden_states_windows(const hidden_states *s, size_t batch);
/* The number of the batch's first window among those of its loop; and the number of the loop. */
size_t hidden_states_first(const hidden_states *s, size_t batch);
size_t hidden_states_loop(const hidden_states *s, size_t batch);
size_t hidden_states_stride(const hidden_states *s, size_t batch);

/* After a failure *s may be passed to hidden_states_free. */
bool hidden_states_new(hidden_states *s, bool in_file, const hidden_state_slots *file, gq_error *e);
void hidden_states_free(hidden_states *s);
/* Bytes that states_new takes where hidden states are written to a file as well; in_file: where they are only
 * there. */
uint64_t hidden_states_bytes(uint64_t width, const forward_job *j, size_t batch, bool in_file);

/* A batch's hidden states to change or look at, valid until the next call; fresh: what they were does not
 * matter. */
float *hidden_states_take(hidden_states *s, size_t batch, bool fresh, gq_error *e);
/* Keep what states_take has handed out and the caller changed, in the slot after the present one. done: they
 * are those after a layer, and not only after its first sublayer, for which memory will do. */
bool hidden_states_put(hidden_states *s, size_t batch, const float *x, bool done, gq_error *e);
/* To be called when all batches have been put: the next slot, or with done false the first sublayer's hidden
 * states, become the present ones. */
void hidden_states_next_slot(hidden_states *s, bool done);
bool hidden_states_resume(hidden_states *s, unsigned slot, gq_error *e);

/* Inputs of the tokens that count; grown as needed, empty where the job has no marks. */
typedef struct run_weighted {
    float *x, *gate;
    uint32_t *token;
    size_t floats, tokens;
} run_weighted;

struct forward_run {
    const forward_job *job;
    threads_pool *pool;
    forward_bounds bounds;
    const forward_model *model; /* the model whose batch and layer are in memory; NULL: none */
    forward_batch *batch;
    forward_layer *layer;
    float *copy; /* of a batch's hidden states, for probes; NULL: none needed so far */
    run_weighted weighted;
    size_t read; /* layer whose weights are in memory; SIZE_MAX: none */
};

struct forward_stream {
    forward_run *run;
    const forward_model *model; /* or its MTP layer that is next */
    hidden_states hidden_states;
    probe_cache *cache; /* NULL: none */
    unsigned side;
};

/* Returns the model's batch, made in place of another model's. NULL: *e says why. */
forward_batch *run_batch(forward_run *r, const forward_model *m, gq_error *e);
/* Makes the batch work on windows of the job, from `first` on. */
void run_choose_windows(const forward_run *r, forward_batch *b, size_t first, size_t windows);
/* Hands inputs to an observer, those of tokens that count, times the root of their weights. in->first is set. */
forward_answer run_hand_inputs(forward_run *r, const forward_observer *observer, const forward_inputs *in,
                               gq_error *e);
/* Bytes that weighting inputs of a batch takes; 0 where the job has no marks. */
uint64_t run_weighted_bytes(const forward_job *j, const forward_model *m, size_t batch);
/* Frees the layer, whose weights are not needed any more. */
void run_drop_layer(forward_run *r);
/* Takes memory for a copy of a batch's hidden states. */
float *run_lay_out_copy(const forward_model *m, const forward_job *j, size_t batch, memory_ledger *l);
float *run_copy(forward_run *r, const forward_model *m, gq_error *e);
bool run_progress(const forward_run *r, double work, const char *what, gq_error *e);

/* Results of a layer's products that probes keep for later probes and for the pass. They are the same each
 * time while the hidden states before the layer and the weights that led to them stay. Of attention and
 * feed-forward sublayers these are the inputs of their last matrix, so that nothing before it is run again; of
 * other sublayers what each product gives.
 *
 * Each batch of a stream has a fixed number of bytes, in memory as long as that lasts, else in a file without
 * a name. What does not fit, or cannot be read again, is computed again: nothing that is written depends on
 * how much is kept. Nothing is kept once a run has used a weight that will be replaced, or has skipped an
 * expert whose output it needed. A file that takes longer than computing is used no more. */

/* Kept results of one batch of a stream. */
typedef struct cached_batch cached_batch;

/* A run of a batch, as what is kept sees it. */
typedef struct probe_cache_run {
    batch_results results; /* first: what the batch sees of it */
    probe_cache *of;       /* NULL: nothing is kept */
    cached_batch *batch;
    bool adds;        /* a probe; a pass only recalls */
    bool is_observed; /* an observer gets the inputs */
    size_t within;    /* results being computed, one as part of another */
    double started;   /* when the outermost of them was */
} probe_cache_run;

/* Begins a run of a batch: side 0 is the base model's stream, 1 a quant's. */
probe_cache_run probe_cache_run_of(probe_cache *k, unsigned side, size_t batch, uint64_t tokens, bool adds,
                                   bool is_observed);
/* Forgets what a stream's batches have kept. */
void probe_cache_forget(probe_cache *k, unsigned side);
