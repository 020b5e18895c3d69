/* The state that the streams of a run share: one model's layer and batch at a time. */
#include "pass/run.h"
#include "graph/layer.h"

#include <stdlib.h>

forward_run *forward_run_new(const forward_job *j, const forward_bounds *b, gq_error *e) {
    forward_run *r = calloc(1, sizeof *r);
    if (!r) return gq_fail_memory(e, sizeof *r), NULL;
    *r = (forward_run){.job = j, .bounds = *b, .read = SIZE_MAX};
    r->pool = threads_pool_new(j->threads);
    if (r->pool) return r;
    free(r);
    return gq_fail_memory(e, sizeof *r), NULL;
}

void run_drop_layer(forward_run *r) {
    forward_layer_free(r->layer);
    r->layer = NULL, r->read = SIZE_MAX;
}

static void drop_model(forward_run *r) {
    run_drop_layer(r);
    forward_batch_free(r->batch), free(r->copy);
    r->batch = NULL, r->model = NULL, r->copy = NULL;
}

void forward_run_free(forward_run *r) {
    if (!r) return;
    drop_model(r);
    threads_pool_free(r->pool);
    free(r);
}

threads_pool *forward_run_pool(const forward_run *r) { return r->pool; }

forward_batch *run_batch(forward_run *r, const forward_model *m, gq_error *e) {
    if (r->model != m) drop_model(r);
    if (!r->batch) r->batch = forward_batch_new(m, r->job->context, r->bounds.batch, r->pool, e);
    r->model = r->batch ? m : NULL;
    return r->batch;
}

float *run_lay_out_copy(const forward_model *m, const forward_job *j, size_t batch, memory_ledger *l) {
    return forward_activations_take(l, forward_model_state(m, j->context),
                                    forward_stride(batch * j->context));
}

float *run_copy(forward_run *r, const forward_model *m, gq_error *e) {
    memory_ledger l = {.failed = false};
    if (run_batch(r, m, e) && !r->copy) {
        r->copy = run_lay_out_copy(m, r->job, r->bounds.batch, &l);
        memory_had(&l, e);
    }
    return r->copy;
}

static bool run_read_layer(forward_run *r, const forward_model *m, size_t i, gq_error *e) {
    const forward_job *j = r->job;
    if (!(j->awaits ? forward_layer_await : forward_layer_read)(r->layer, i, e)) return false;
    return !j->share ||
           j->share(j->data, forward_layer_memory(r->layer), forward_layer_bytes(m, i, r->bounds.layer), e);
}

forward_layer *forward_run_layer(forward_run *r, const forward_model *m, size_t i, gq_error *e) {
    if (!run_batch(r, m, e)) return NULL;
    if (r->read == i) return r->layer;
    r->read = SIZE_MAX;
    if (!r->layer) r->layer = forward_layer_new(m, r->bounds.layer, e);
    if (!r->layer || !run_read_layer(r, m, i, e)) return NULL;
    if (!r->job->awaits) forward_layer_ahead(r->layer, i + 1);
    r->read = i;
    return r->layer;
}

bool run_progress(const forward_run *r, double work, const char *what, gq_error *e) {
    return !r->job->progress || r->job->progress(r->job->data, work, what, e);
}
