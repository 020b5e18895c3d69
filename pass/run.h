/* A run as stream.c and head.c see it. */
#ifndef GQ_FORWARD_RUN_H
#define GQ_FORWARD_RUN_H

#include "graph/layer.h"
#include "pass/states.h"

struct forward_run {
    const forward_job *job;
    threads_pool *pool;
    forward_bounds bounds;
    const forward_model *model; /* the model whose batch and layer are in memory; NULL: none */
    forward_batch *batch;
    forward_layer *layer;
    float *copy; /* of a batch's states, for looks; NULL: none needed so far */
    size_t read; /* layer whose weights are in memory; SIZE_MAX: none */
};

struct forward_stream {
    forward_run *run;
    const forward_model *model; /* or its prediction block that is next */
    states states;
    probe_cache *kept; /* NULL: nothing is */
    unsigned side;
};

/* Returns the model's batch, made in place of another model's. NULL: *e says why. */
forward_batch *run_batch(forward_run *r, const forward_model *m, gq_error *e);
/* Frees the layer, whose weights are not needed any more. */
void run_drop_layer(forward_run *r);
/* Takes memory for a copy of a batch's states. */
float *run_lay_out_copy(const forward_model *m, const forward_job *j, size_t batch, memory_ledger *l);
float *run_copy(forward_run *r, const forward_model *m, gq_error *e);
bool run_progress(const forward_run *r, double work, const char *what, gq_error *e);
/* Bytes that forward_run_head takes for these models, beside the states. */
uint64_t head_bytes(const forward_job *j, const forward_model *const *models, size_t n, size_t batch);

#endif
