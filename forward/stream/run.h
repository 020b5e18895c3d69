/* A run as stream.c and head.c see it. */
#pragma once

#include "forward/graph/layer.h"
#include "forward/stream/states.h"

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
    float *copy; /* of a batch's states, for probes; NULL: none needed so far */
    run_weighted weighted;
    size_t read; /* layer whose weights are in memory; SIZE_MAX: none */
};

struct forward_stream {
    forward_run *run;
    const forward_model *model; /* or its prediction block that is next */
    states states;
    probe_cache *cache; /* NULL: none */
    unsigned side;
};

/* Returns the model's batch, made in place of another model's. NULL: *e says why. */
forward_batch *run_batch(forward_run *r, const forward_model *m, gq_error *e);
/* Has the batch work on windows of the job, from `first` on. */
void run_choose_windows(const forward_run *r, forward_batch *b, size_t first, size_t windows);
/* Hands inputs to an observer, those of tokens that count, times the root of their weights. in->first is set. */
forward_answer run_hand_inputs(forward_run *r, const forward_observer *observer, const forward_inputs *in,
                               gq_error *e);
/* Bytes that weighting inputs of a batch takes; 0 where the job has no marks. */
uint64_t run_weighted_bytes(const forward_job *j, const forward_model *m, size_t batch);
/* Frees the layer, whose weights are not needed any more. */
void run_drop_layer(forward_run *r);
/* Takes memory for a copy of a batch's states. */
float *run_lay_out_copy(const forward_model *m, const forward_job *j, size_t batch, memory_ledger *l);
float *run_copy(forward_run *r, const forward_model *m, gq_error *e);
bool run_progress(const forward_run *r, double work, const char *what, gq_error *e);
