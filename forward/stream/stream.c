/* Streams: the hidden states of a model's windows, taken through the layers batch by batch. A pass takes each
 * batch's hidden states, runs the layer or a sublayer of it, and puts them into the next slot; a probe does the
 * same to a copy: the hidden states stay, what it brings may be kept. Slots are in hidden_states.c, what streams
 * share in run.c, logits in head.c, bounds in job.c. */
#include "forward/stream/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/stream/run.h"

/* ---- a stream ---- */

uint64_t forward_stream_bytes(const forward_model *m, size_t windows, size_t context) {
    uint64_t floats, tokens = (uint64_t)windows * context;
    return __builtin_mul_overflow(tokens, forward_model_features(m, context), &floats) ||
                   floats > UINT64_MAX / 16
               ? UINT64_MAX
               : floats * sizeof(float);
}

forward_stream *forward_stream_new(forward_run *r, const forward_model *m, const hidden_state_slots *file,
                                   gq_error *e) {
    forward_stream *s = calloc(1, sizeof *s);
    if (!s) return gq_fail_memory(e, sizeof *s), NULL;
    *s = (forward_stream){.run = r, .model = m};
    s->hidden_states = (hidden_states){.width = forward_model_features(m, r->job->context),
                                       .context = r->job->context,
                                       .windows = r->job->windows,
                                       .loops = forward_job_loops(r->job),
                                       .batch = r->bounds.batch};
    if (hidden_states_new(&s->hidden_states, r->bounds.in_file, file, e)) return s;
    forward_stream_free(s);
    return NULL;
}

void forward_stream_free(forward_stream *s) {
    if (s) hidden_states_free(&s->hidden_states);
    free(s);
}

bool forward_stream_embed(forward_stream *s, const forward_rows *rows, gq_error *e) {
    const forward_job *j = s->run->job;
    forward_batch *b = run_batch(s->run, s->model, e);
    s->hidden_states.slot = s->hidden_states.file.slots - 1,
    s->hidden_states.begun = false; /* the first is the next */
    for (size_t i = 0; b && i < s->hidden_states.batches; i++) {
        float *x = hidden_states_take(&s->hidden_states, i, true, e);
        run_choose_windows(s->run, b, hidden_states_first(&s->hidden_states, i),
                           hidden_states_windows(&s->hidden_states, i));
        if (!forward_embed(b, rows, j->ids + hidden_states_first(&s->hidden_states, i) * j->context, x,
                           hidden_states_stride(&s->hidden_states, i), e) ||
            !hidden_states_put(&s->hidden_states, i, x, true, e) || !run_progress(s->run, 0, "embedding", e))
            return false;
    }
    hidden_states_next_slot(&s->hidden_states, true);
    return b;
}

void forward_stream_copy(forward_stream *s, const forward_stream *from) {
    for (size_t i = 0; i < s->hidden_states.batches; i++)
        memcpy(s->hidden_states.held[i], from->hidden_states.held[i],
               s->hidden_states.width * hidden_states_stride(&s->hidden_states, i) * sizeof(float));
}

bool forward_stream_resume(forward_stream *s, unsigned slot, gq_error *e) {
    return hidden_states_resume(&s->hidden_states, slot, e);
}

uint64_t forward_stream_sum(const forward_stream *s, size_t loop) { return s->hidden_states.sums[loop]; }

size_t forward_stream_batches(const forward_stream *s) { return s->hidden_states.batches; }
size_t forward_stream_windows(const forward_stream *s) { return hidden_states_windows(&s->hidden_states, 0); }
size_t forward_stream_loop(const forward_stream *s, size_t batch) {
    return hidden_states_loop(&s->hidden_states, batch);
}
size_t forward_stream_first(const forward_stream *s, size_t batch) {
    return hidden_states_first(&s->hidden_states, batch);
}

const float *forward_stream_hidden_states(forward_stream *s, size_t batch, size_t *stride, gq_error *e) {
    *stride = hidden_states_stride(&s->hidden_states, batch);
    return hidden_states_take(&s->hidden_states, batch, false, e);
}

/* ---- MTP layers ---- */

void forward_stream_mtp(forward_stream *s, const forward_model *mtp) {
    const forward_model *of = forward_mtp_of(s->model);
    s->model = mtp ? mtp : of ? of : s->model;
}

/* Returns what the block begins with for a batch; it may be changed. */
static float *stream_enter_mtp(forward_stream *s, size_t batch, gq_error *e) {
    const forward_job *j = s->run->job;
    size_t stride = hidden_states_stride(&s->hidden_states, batch);
    float *y = run_copy(s->run, s->model, e),
          *x = y ? hidden_states_take(&s->hidden_states, batch, false, e) : NULL;
    if (!x) return NULL;
    run_choose_windows(s->run, s->run->batch, hidden_states_first(&s->hidden_states, batch),
                       hidden_states_windows(&s->hidden_states, batch));
    const uint32_t *ids = j->ids + hidden_states_first(&s->hidden_states, batch) * j->context;
    return forward_mtp_enter(s->run->batch, ids, x, stride, y, stride, e) ? y : NULL;
}

/* ---- layers ---- */

/* Between the products of a layer progress is asked whether to continue; then the caller's observer, if any, gets the
 * inputs. */
typedef struct asking {
    forward_run *run;
    const forward_observer *observer;
    size_t first;    /* the batch's first token among the stream's */
    double work;     /* of the batch in hand; 0: not reported */
    double reported; /* work of the batch that was reported */
    double all, met; /* bytes of the weights that make this work, and of those that were multiplied */
    char what[64];
} asking;

static asking asking_of(const forward_stream *s, const forward_observer *observer) {
    asking a = {.run = s->run, .observer = observer, .what = "MTP layer"};
    if (forward_mtp_of(s->model)) return a;
    snprintf(a.what, sizeof a.what, "layer %zu of %zu", s->run->read + 1,
             forward_model_sizes(s->model)->layers);
    return a;
}

/* Reports the progress of the weights before these inputs'. What is not a product is reported with the last
 * of them. */
static bool stream_report_met(asking *a, const forward_inputs *in, gq_error *e) {
    static const double MOST = .9;
    double done = a->work * fmin(MOST, a->all > 0 ? a->met / a->all : 0), more = fmax(0, done - a->reported);
    for (size_t i = 0; i < in->n_weights; i++) a->met += (double)in->weights[i]->size / (double)in->matrices;
    a->reported += more;
    return run_progress(a->run, more, a->what, e);
}

static forward_answer stream_ask_to_go_on(void *data, const forward_inputs *in, gq_error *e) {
    asking *a = data;
    if (!stream_report_met(a, in, e)) return FORWARD_FAILED;
    if (!a->observer) return FORWARD_ON;
    forward_inputs placed = *in;
    placed.first = a->first;
    return run_hand_inputs(a->run, a->observer, &placed, e);
}

static forward_answer stream_hand_scores(void *data, const forward_scores *scores, gq_error *e) {
    const asking *a = data;
    return a->observer->on_scores(a->observer->data, scores, e);
}

void forward_stream_cache(forward_stream *s, probe_cache *k, unsigned side) { s->cache = k, s->side = side; }

bool forward_stream_skips(const forward_stream *s, size_t batch, const forward_layer *l) {
    const forward_sizes *of = forward_model_sizes(s->model);
    size_t number = forward_layer_number(l), last = of->layers - of->blocks;
    if (forward_job_loops(s->run->job) > 1 && number >= last)
        number += hidden_states_loop(&s->hidden_states, batch) * of->blocks - last;
    return forward_layer_idles(s->model, number);
}

/* Runs a sublayer, or the whole layer, on x: a batch's hidden states, or a copy of them. probes: results are kept. */
static bool run_sublayers(forward_stream *s, size_t batch, const forward_layer *l, forward_sublayers which,
                          float *x, bool probes, asking *a, gq_error *e) {
    forward_batch *b = run_batch(s->run, s->model, e);
    if (!b) return false;
    if (forward_stream_skips(s, batch, l)) return true;
    size_t windows = hidden_states_windows(&s->hidden_states, batch),
           tokens = windows * s->hidden_states.context;
    if (probes && a->observer && a->observer->windows && a->observer->windows < windows)
        windows = a->observer->windows;
    run_choose_windows(s->run, b, hidden_states_first(&s->hidden_states, batch), windows);
    a->first = hidden_states_first(&s->hidden_states, batch) * s->hidden_states.context;
    forward_observer observer = {.on_inputs = stream_ask_to_go_on, .data = a};
    if (a->observer && a->observer->on_scores) observer.on_scores = stream_hand_scores;
    probe_cache_run cached = probe_cache_run_of(forward_mtp_of(s->model) ? NULL : s->cache, s->side, batch,
                                                tokens, probes && !observer.on_scores, a->observer);
    b->results = cached.of ? &cached.results : NULL;
    bool ok = forward_block(b, l, which, x, hidden_states_stride(&s->hidden_states, batch), &observer, e);
    b->results = NULL;
    return ok;
}

/* Lets all batches pass an MTP layer. The input of an output matrix of its own is reported after it. */
static bool stream_pass_mtp(forward_stream *s, const forward_layer *l, asking *a, gq_error *e) {
    const forward_observer observer = {.on_inputs = stream_ask_to_go_on, .data = a};
    for (size_t i = 0; i < s->hidden_states.batches; i++) {
        size_t stride = hidden_states_stride(&s->hidden_states, i);
        float *y = stream_enter_mtp(s, i, e);
        a->all = (double)forward_model_sizes(s->model)->layer_bytes;
        a->work = a->all * (double)hidden_states_windows(&s->hidden_states, i), a->reported = a->met = 0;
        if (!y || !run_sublayers(s, i, l, FORWARD_WHOLE, y, false, a, e)) return false;
        if (forward_mtp_has_head(s->model) &&
            !forward_final(s->run->batch, y, stride, y, stride, &observer, e))
            return false;
        if (!run_progress(s->run, fmax(0, a->work - a->reported), a->what, e)) return false;
    }
    return true;
}

bool forward_stream_pass(forward_stream *s, const forward_layer *l, forward_sublayers which,
                         const forward_observer *observer, gq_error *e) {
    asking a = asking_of(s, observer);
    if (forward_mtp_of(s->model)) return stream_pass_mtp(s, l, &a, e);
    bool done = which & FORWARD_FFN;
    double share = which == FORWARD_WHOLE ? 1 : .5;
    for (size_t i = 0; i < s->hidden_states.batches; i++) {
        float *x = hidden_states_take(&s->hidden_states, i, false, e);
        a.all = (double)forward_model_sizes(s->model)->layer_bytes * share;
        a.work = a.all * (double)hidden_states_windows(&s->hidden_states, i), a.reported = a.met = 0;
        if (!x || !run_sublayers(s, i, l, which, x, false, &a, e) ||
            !hidden_states_put(&s->hidden_states, i, x, done, e) ||
            !run_progress(s->run, a.work - a.reported, a.what, e))
            return false;
    }
    hidden_states_next_slot(&s->hidden_states, done);
    probe_cache_forget(s->cache, s->side);
    return true;
}

bool forward_stream_pass_loops(forward_stream *s, size_t loop, const forward_layer *l, gq_error *e) {
    asking a = asking_of(s, NULL);
    for (size_t i = 0; i < s->hidden_states.batches; i++) {
        float *x = hidden_states_take(&s->hidden_states, i, false, e);
        if (!x ||
            (hidden_states_loop(&s->hidden_states, i) >= loop &&
             !run_sublayers(s, i, l, FORWARD_WHOLE, x, false, &a, e)) ||
            !hidden_states_put(&s->hidden_states, i, x, true, e) || !run_progress(s->run, 0, a.what, e))
            return false;
    }
    hidden_states_next_slot(&s->hidden_states, true);
    return true;
}

bool forward_stream_follow(forward_stream *s, forward_stream *from, size_t loop, gq_error *e) {
    for (size_t i = 0; i < s->hidden_states.batches; i++) {
        bool follows = hidden_states_loop(&s->hidden_states, i) >= loop;
        float *x = hidden_states_take(&s->hidden_states, i, follows, e), *y = x;
        if (follows) y = hidden_states_take(&from->hidden_states, i, false, e);
        if (!x || !y) return false;
        if (follows)
            memcpy(x, y, s->hidden_states.width * hidden_states_stride(&s->hidden_states, i) * sizeof *x);
        if (!hidden_states_put(&s->hidden_states, i, x, true, e)) return false;
    }
    hidden_states_next_slot(&s->hidden_states, true);
    return true;
}

/* Returns a copy of a batch's hidden states that may be changed. States from a file are a copy already. */
static float *copy_of(forward_stream *s, size_t batch, gq_error *e) {
    if (forward_mtp_of(s->model)) return stream_enter_mtp(s, batch, e);
    size_t floats = s->hidden_states.width * hidden_states_stride(&s->hidden_states, batch);
    float *x = hidden_states_take(&s->hidden_states, batch, false, e);
    float *copy = x && s->hidden_states.held ? run_copy(s->run, s->model, e) : x;
    return copy && copy != x ? memcpy(copy, x, floats * sizeof *x) : copy;
}

bool forward_stream_probe(forward_stream *s, size_t batch, const forward_layer *l, forward_sublayers which,
                          const forward_observer *observer, const float **after, gq_error *e) {
    asking a = asking_of(s, observer);
    float *x = copy_of(s, batch, e);
    if (after) *after = x;
    return x && run_sublayers(s, batch, l, which, x, true, &a, e);
}

/* ---- sums of squares ---- */

enum { ROWS = 8 }; /* chains that continue side by side */

/* The square of a float is exact in a double, so that a fused multiply-add changes nothing. */
static void add_rows(const float *x, size_t stride, size_t tokens, double *sums) {
    double sum[ROWS];
    for (size_t r = 0; r < ROWS; r++) sum[r] = sums[r];
    for (size_t t = 0; t < tokens; t++)
        for (size_t r = 0; r < ROWS; r++) sum[r] += (double)x[r * stride + t] * (double)x[r * stride + t];
    for (size_t r = 0; r < ROWS; r++) sums[r] = sum[r];
}

typedef struct square_sums {
    const forward_inputs *in;
    double *sums;
} square_sums;

static void add_squares_of_rows(void *data, size_t i, int) {
    const square_sums *to = data;
    const forward_inputs *in = to->in;
    add_rows(in->x + i * ROWS * in->stride, in->stride, in->tokens, to->sums + i * ROWS);
}

void forward_add_squares(const forward_inputs *in, double *sums, threads_pool *pool) {
    size_t whole = in->features / ROWS;
    threads_for(pool, whole, THREADS_EVEN, add_squares_of_rows, &(square_sums){in, sums});
    for (size_t r = whole * ROWS; r < in->features; r++)
        for (size_t t = 0; t < in->tokens; t++)
            sums[r] += (double)in->x[r * in->stride + t] * (double)in->x[r * in->stride + t];
}
