/* The hidden state that the streams of a run share: one model's layer and batch at a time. */
#include "forward/stream/run.h"

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
    free(r->weighted.x), free(r->weighted.gate), free(r->weighted.token);
    threads_pool_free(r->pool);
    free(r);
}

threads_pool *forward_run_pool(const forward_run *r) { return r->pool; }

/* Whether what the present model has in memory has room for another's. */
static bool run_fits(const forward_run *r, const forward_model *m) {
    size_t context = r->job->context;
    return r->model && r->model->codecs == m->codecs &&
           forward_model_features(r->model, context) == forward_model_features(m, context) &&
           forward_batch_bytes(m, context, r->batch->most_windows, threads_pool_most(r->pool)) <=
               r->batch->bytes &&
           (!r->layer || forward_layer_memory_bytes(m, r->bounds.layer) <= r->layer->memory_bytes);
}

/* Models that take turns at each layer share their memory: the system would else hand out zeroed pages every
 * time, a fifth of the time of a small model. */
forward_batch *run_batch(forward_run *r, const forward_model *m, gq_error *e) {
    if (r->model != m && !(run_fits(r, m) && forward_batch_set_model(r->batch, m, e))) drop_model(r);
    if (r->layer && r->model != m) forward_layer_set_model(r->layer, m), r->read = SIZE_MAX;
    if (!r->batch) r->batch = forward_batch_new(m, r->job->context, r->bounds.batch, r->pool, e);
    r->model = r->batch ? m : NULL;
    return r->batch;
}

float *run_lay_out_copy(const forward_model *m, const forward_job *j, size_t batch, memory_ledger *l) {
    return forward_activations_take(l, forward_model_features(m, j->context),
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

/* ---- tokens that count differently ---- */

void run_choose_windows(const forward_run *r, forward_batch *b, size_t first, size_t windows) {
    forward_batch_windows(b, windows);
    if (r->job->marks) forward_batch_cut(b, forward_job_marks(r->job, first));
}

static size_t widest_inputs(const forward_model *m) {
    size_t most = m->sizes.width;
    for (uint64_t i = 0; i < m->file->n_tensors; i++)
        if (forward_feeds(m, m->file->tensors[i])) most = max(most, (size_t)m->file->tensors[i]->ne[0]);
    return most;
}

uint64_t run_weighted_bytes(const forward_job *j, const forward_model *m, size_t batch) {
    uint64_t tokens = mul_sat(mul_sat(batch, j->context), forward_experts_repeats(m));
    if (!j->marks) return 0;
    return add_sat(mul_sat(mul_sat(widest_inputs(m), forward_stride(tokens)), sizeof(float)),
                   mul_sat(tokens, sizeof(float) + sizeof(uint32_t)));
}

/* Room is made as inputs come: late experts, which may see a token several times, need not have all of it. */
static bool run_make_room(run_weighted *w, size_t features, size_t tokens, gq_error *e) {
    size_t floats = features * forward_stride(tokens);
    if (floats > w->floats) {
        free(w->x);
        w->x = memory_lines(floats, sizeof *w->x, e), w->floats = w->x ? floats : 0;
        if (!w->x) return false;
    }
    if (tokens <= w->tokens) return true;
    free(w->gate), free(w->token);
    w->gate = malloc(tokens * sizeof *w->gate), w->token = malloc(tokens * sizeof *w->token);
    w->tokens = w->gate && w->token ? tokens : 0;
    return w->tokens || gq_fail_memory(e, tokens * (sizeof *w->gate + sizeof *w->token));
}

typedef struct weighted_rows {
    const forward_inputs *in;
    const forward_mark *marks; /* of the batch's tokens */
    float *to;
    size_t stride;
} weighted_rows;

static size_t token_of(const forward_inputs *in, size_t i) { return in->token ? in->token[i] : i; }

static void weigh_row(void *data, size_t f, int) {
    const weighted_rows *r = data;
    const float *x = r->in->x + f * r->in->stride;
    float *to = r->to + f * r->stride;
    for (size_t i = 0; i < r->in->tokens; i++) {
        uint32_t weight = r->marks[token_of(r->in, i)].weight;
        if (weight) *to++ = weight == FORWARD_WEIGHT_ONE ? x[i] : forward_weight_root(weight) * x[i];
    }
}

forward_answer run_hand_inputs(forward_run *r, const forward_observer *observer, const forward_inputs *in,
                               gq_error *e) {
    forward_inputs some = *in;
    const forward_mark *marks = r->job->marks ? r->job->marks + in->first : NULL;
    run_weighted *w = &r->weighted;
    bool all = true;
    if (!observer->on_inputs) return FORWARD_ON;
    some.weight = (uint64_t)in->tokens * FORWARD_WEIGHT_ONE;
    for (size_t i = 0; marks && all && i < in->tokens; i++)
        all = marks[token_of(in, i)].weight == FORWARD_WEIGHT_ONE;
    if (all) return observer->on_inputs(observer->data, &some, e);
    if (!run_make_room(w, in->features, in->tokens, e)) return FORWARD_FAILED;
    some.tokens = 0, some.weight = 0;
    for (size_t i = 0; i < in->tokens; i++) {
        size_t t = token_of(in, i);
        if (!marks[t].weight) continue;
        if (in->gate) w->gate[some.tokens] = in->gate[i];
        w->token[some.tokens++] = (uint32_t)t, some.weight += marks[t].weight;
    }
    some.stride = forward_stride(some.tokens), some.x = w->x, some.token = w->token;
    some.gate = in->gate ? w->gate : NULL;
    weighted_rows rows = {in, marks, w->x, some.stride};
    threads_for(r->pool, in->features, THREADS_EVEN, weigh_row, &rows);
    return observer->on_inputs(observer->data, &some, e);
}

bool run_progress(const forward_run *r, double work, const char *what, gq_error *e) {
    return !r->job->progress || r->job->progress(r->job->data, work, what, e);
}
