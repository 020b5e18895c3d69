/* Streams: the states of a model's windows, taken through the layers batch by batch, and the bounds of a run,
 * known before anything is read. forward_bounds_of tries states in memory with batches of the job's most down
 * to 512 tokens, then states in a file with batches down to one window, and takes the first that fits the
 * memory; large batches come first because every batch decodes the layer's weights again. A mixture
 * tries a file earlier (least_windows). Where a whole layer leaves memory for batches of fewer than 512
 * tokens, or for none, the same is tried with the least of a layer, which then gets what is left: what is not
 * in memory of it every batch reads again. A pass takes each batch's states, runs the layer or a part of it,
 * and puts them into the next slot; a look does the same to a copy and keeps nothing. Slots are in states.c,
 * what streams share in run.c, logits in head.c.
 */
#include "pass/stream.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/batch.h"
#include "graph/block.h"
#include "graph/layer.h"
#include "pass/probe_cache.h"
#include "pass/run.h"

/* ---- bounds ---- */

enum {
    /* Tokens of each expert of a mixture, for which batches are larger: with 128, decoding an expert takes as
     * long as its products in bf16. But no more than so many of all: of a model 7,168 wide whose tokens meet
     * 8 experts, what flows into these is 1.9 GB. */
    EXPERT_TOKENS = 256,
    MOST_TOKENS = 8192,
    LEAST_TOKENS = 512,   /* tokens; with fewer, decoding costs so much that states go into a file instead */
    OVERHEAD = 128 << 10, /* bytes per thread beside those that are counted */
};

/* What bounds are tried with. */
typedef struct bounds_trial {
    const forward_job *job;
    const forward_model *const *models;
    size_t n;
    bool logits;
    uint64_t layer; /* as forward_bounds has it */
} bounds_trial;

/* Bytes that a model takes while a layer is run, besides the layer. */
static uint64_t beside_layer(const forward_job *j, const forward_model *m, size_t batch, bool in_file) {
    memory_ledger l = {.counts = true};
    memory_hold(&l, (uint64_t)OVERHEAD * (uint64_t)j->threads);
    memory_hold(&l, forward_batch_bytes(m, j->context, batch, j->threads));
    memory_hold(&l, run_weighted_bytes(j, m, batch));
    if (j->looks && !in_file) run_lay_out_copy(m, j, batch, &l);
    return l.bytes;
}

static forward_bounds bounds_with(const bounds_trial *t, size_t batch, bool in_file) {
    const forward_job *j = t->job;
    forward_bounds b = {.batch = batch, .in_file = in_file, .layer = t->layer};
    uint64_t most = t->logits ? head_bytes(j, t->models, t->n, batch) : 0;
    b.peak = j->extra_bytes;
    for (size_t i = 0; i < t->n; i++) {
        const forward_model *m = t->models[i];
        b.states = add_sat(b.states, forward_stream_bytes(m, j->windows * forward_job_loops(j), j->context));
        b.peak = add_sat(b.peak, states_bytes(forward_model_state(m, j->context), j, batch, in_file));
        most =
            max(most, add_sat(forward_layer_memory_bytes(m, t->layer), beside_layer(j, m, batch, in_file)));
    }
    b.peak = add_sat(b.peak, most);
    return b;
}

size_t forward_batch_tokens(const forward_model *m) {
    return min(max(mul_sat(forward_experts_spread(m), EXPERT_TOKENS), FORWARD_BATCH_TOKENS), MOST_TOKENS);
}

size_t forward_job_batch(const forward_job *j) {
    return forward_job_windows(j, max(j->batch_tokens, FORWARD_BATCH_TOKENS));
}

double forward_job_weight(const forward_job *j, size_t first, size_t p) {
    size_t n = j->context - 1;
    if (!j->marks) return 1;
    const forward_mark *next = j->marks + (first + p / n) * j->context + p % n + 1;
    return next->position ? (double)next->weight / FORWARD_WEIGHT_ONE : 0;
}

uint64_t forward_job_counted(const forward_job *j) {
    uint64_t all = (uint64_t)j->windows * j->context, n = 0;
    for (uint64_t i = 0; j->marks && i < all; i++) n += j->marks[i].weight > 0;
    return j->marks ? n : all;
}

size_t forward_job_windows(const forward_job *j, size_t tokens) {
    size_t n = tokens / j->context;
    return n < 1 ? 1 : n < j->windows ? n : j->windows;
}

/* Windows of a batch with which states are in memory, at least, where more fit with states in a file. Of a
 * mixture they hold EXPERT_TOKENS for each expert, or all that the job has at once, if the job asks for it.
 */
static size_t least_windows(const forward_job *j, const forward_model *const *models, size_t n) {
    size_t tokens = LEAST_TOKENS;
    for (size_t i = 0; j->batch_tokens && i < n; i++) {
        size_t spread = forward_experts_spread(models[i]);
        if (spread > 1) tokens = max(tokens, mul_sat(spread, EXPERT_TOKENS));
    }
    return min(forward_job_windows(j, tokens), forward_job_batch(j));
}

/* The largest batch, of `least` windows or more, that fits the memory; of no windows: none does. */
static forward_bounds largest_batch(const bounds_trial *t, size_t least, bool in_file) {
    for (size_t batch = forward_job_batch(t->job); batch >= least; batch--) {
        forward_bounds b = bounds_with(t, batch, in_file);
        if (b.peak <= t->job->memory) return b;
    }
    return (forward_bounds){.batch = 0};
}

/* Chooses batches and where states are; of no windows: the memory is too small for any. */
static forward_bounds best_bounds(const bounds_trial *t) {
    size_t fewest = max(1, forward_job_windows(t->job, LEAST_TOKENS));
    forward_bounds held = largest_batch(t, fewest, false);
    if (held.batch && held.batch >= least_windows(t->job, t->models, t->n)) return held;
    forward_bounds filed = largest_batch(t, held.batch + 1, true);
    return filed.batch ? filed : held;
}

/* Lets a layer that is run more than once take what memory is left. */
static forward_bounds give_layer_the_rest(const bounds_trial *t, forward_bounds b) {
    const forward_job *j = t->job;
    uint64_t least = 0;
    for (size_t i = 0; i < t->n; i++) least = max(least, forward_model_sizes(t->models[i])->layer_least);
    bool again = j->looks || t->n > 1 || forward_job_loops(j) > 1 || b.batch < j->windows;
    bounds_trial more = *t;
    more.layer = add_sat(least, j->memory - b.peak);
    return again ? bounds_with(&more, b.batch, b.in_file) : b;
}

forward_bounds forward_bounds_of(const forward_job *j, const forward_model *const *models, size_t n,
                                 bool logits) {
    bounds_trial whole = {.job = j, .models = models, .n = n, .logits = logits}, least = whole;
    least.layer = 1;
    forward_bounds b = best_bounds(&whole);
    if (b.batch >= max(1, forward_job_windows(j, LEAST_TOKENS))) return b;
    forward_bounds in_parts = best_bounds(&least);
    if (in_parts.batch > b.batch) return give_layer_the_rest(&least, in_parts);
    if (b.batch) return b;
    b = bounds_with(&whole, 1, true), in_parts = bounds_with(&least, 1, true);
    return in_parts.peak < b.peak ? in_parts : b;
}

uint64_t forward_peak_in_file(const forward_job *j, const forward_model *const *models, size_t n,
                              size_t batch, uint64_t layer) {
    const bounds_trial t = {.job = j, .models = models, .n = n, .layer = layer};
    return bounds_with(&t, batch, true).peak;
}

double forward_job_work(const forward_job *j, const forward_model *m, bool logits) {
    const forward_sizes *s = forward_model_sizes(m);
    double layers = (double)s->layers * (double)s->layer_bytes;
    return (layers + (logits ? (double)s->out->size : 0)) * (double)j->windows;
}

/* ---- a stream ---- */

uint64_t forward_stream_bytes(const forward_model *m, size_t windows, size_t context) {
    uint64_t floats, tokens = (uint64_t)windows * context;
    return __builtin_mul_overflow(tokens, forward_model_state(m, context), &floats) ||
                   floats > UINT64_MAX / 16
               ? UINT64_MAX
               : floats * sizeof(float);
}

forward_stream *forward_stream_new(forward_run *r, const forward_model *m, const state_slots *keep,
                                   gq_error *e) {
    forward_stream *s = calloc(1, sizeof *s);
    if (!s) return gq_fail_memory(e, sizeof *s), NULL;
    *s = (forward_stream){.run = r, .model = m};
    s->states = (states){.width = forward_model_state(m, r->job->context),
                         .context = r->job->context,
                         .windows = r->job->windows,
                         .loops = forward_job_loops(r->job),
                         .batch = r->bounds.batch};
    if (states_new(&s->states, r->bounds.in_file, keep, e)) return s;
    forward_stream_free(s);
    return NULL;
}

void forward_stream_free(forward_stream *s) {
    if (s) states_free(&s->states);
    free(s);
}

bool forward_stream_embed(forward_stream *s, const forward_rows *rows, gq_error *e) {
    const forward_job *j = s->run->job;
    forward_batch *b = run_batch(s->run, s->model, e);
    s->states.slot = s->states.keep.slots - 1, s->states.begun = false; /* the first is the next */
    for (size_t i = 0; b && i < s->states.batches; i++) {
        float *x = states_take(&s->states, i, true, e);
        run_choose_windows(s->run, b, states_first(&s->states, i), states_windows(&s->states, i));
        if (!forward_embed(b, rows, j->ids + states_first(&s->states, i) * j->context, x,
                           states_stride(&s->states, i), e) ||
            !states_put(&s->states, i, x, true, e) || !run_progress(s->run, 0, "embedding", e))
            return false;
    }
    states_turn(&s->states, true);
    return b;
}

void forward_stream_copy(forward_stream *s, const forward_stream *from) {
    for (size_t i = 0; i < s->states.batches; i++)
        memcpy(s->states.held[i], from->states.held[i],
               s->states.width * states_stride(&s->states, i) * sizeof(float));
}

bool forward_stream_resume(forward_stream *s, unsigned slot, gq_error *e) {
    return states_resume(&s->states, slot, e);
}

uint64_t forward_stream_sum(const forward_stream *s, size_t loop) { return s->states.sums[loop]; }

size_t forward_stream_batches(const forward_stream *s) { return s->states.batches; }
size_t forward_stream_loop(const forward_stream *s, size_t batch) { return states_loop(&s->states, batch); }
size_t forward_stream_first(const forward_stream *s, size_t batch) { return states_first(&s->states, batch); }

/* ---- layers ---- */

/* Between the products of a layer progress is asked whether to go on; then the caller's observer, if any, gets
 * the inputs. */
typedef struct asking {
    forward_run *run;
    const forward_observer *observer;
    size_t first;    /* the batch's first token among the stream's */
    double work;     /* of the batch in hand; 0: it is not told */
    double told;     /* of it */
    double all, met; /* bytes of the weights that make this work, and of those that were multiplied */
    char what[64];
} asking;

static asking asking_of(const forward_stream *s, const forward_observer *observer) {
    asking a = {.run = s->run, .observer = observer};
    snprintf(a.what, sizeof a.what, "layer %zu of %zu", s->run->read + 1,
             forward_model_sizes(s->model)->layers);
    return a;
}

/* Tells the work of the weights before these inputs'. What is not a product is told with the last of them. */
static bool stream_tell_met(asking *a, const forward_inputs *in, gq_error *e) {
    static const double MOST = .9;
    double done = a->work * fmin(MOST, a->all > 0 ? a->met / a->all : 0), more = fmax(0, done - a->told);
    for (size_t i = 0; i < in->n_weights; i++) a->met += (double)in->weights[i]->size / (double)in->matrices;
    a->told += more;
    return run_progress(a->run, more, a->what, e);
}

static forward_answer stream_ask_to_go_on(void *data, const forward_inputs *in, gq_error *e) {
    asking *a = data;
    if (!stream_tell_met(a, in, e)) return FORWARD_FAILED;
    if (!a->observer) return FORWARD_ON;
    forward_inputs placed = *in;
    placed.first = a->first;
    return run_hand_inputs(a->run, a->observer, &placed, e);
}

static forward_answer stream_hand_scores(void *data, const forward_scores *scores, gq_error *e) {
    const asking *a = data;
    return a->observer->on_scores(a->observer->data, scores, e);
}

void forward_stream_cache(forward_stream *s, probe_cache *k, unsigned side) { s->kept = k, s->side = side; }

/* Runs a part of the layer on x: a batch's states, or a copy of them. looks: results are kept. */
static bool run_part(forward_stream *s, size_t batch, const forward_layer *l, forward_part part, float *x,
                     bool looks, asking *a, gq_error *e) {
    forward_batch *b = run_batch(s->run, s->model, e);
    if (!b) return false;
    size_t windows = states_windows(&s->states, batch), tokens = windows * s->states.context;
    if (looks && a->observer && a->observer->windows && a->observer->windows < windows)
        windows = a->observer->windows;
    run_choose_windows(s->run, b, states_first(&s->states, batch), windows);
    a->first = states_first(&s->states, batch) * s->states.context;
    forward_observer observer = {.on_inputs = stream_ask_to_go_on, .data = a};
    if (a->observer && a->observer->on_scores) observer.on_scores = stream_hand_scores;
    probe_cache_run kept =
        probe_cache_run_of(s->kept, s->side, batch, tokens, looks && !observer.on_scores, a->observer);
    b->results = kept.of ? &kept.results : NULL;
    bool ok = forward_block(b, l, part, x, states_stride(&s->states, batch), &observer, e);
    b->results = NULL;
    return ok;
}

bool forward_stream_pass(forward_stream *s, const forward_layer *l, forward_part part,
                         const forward_observer *observer, gq_error *e) {
    asking a = asking_of(s, observer);
    bool done = part & FORWARD_FFN;
    double share = part == FORWARD_WHOLE ? 1 : .5;
    for (size_t i = 0; i < s->states.batches; i++) {
        float *x = states_take(&s->states, i, false, e);
        a.all = (double)forward_model_sizes(s->model)->layer_bytes * share;
        a.work = a.all * (double)states_windows(&s->states, i), a.told = a.met = 0;
        if (!x || !run_part(s, i, l, part, x, false, &a, e) || !states_put(&s->states, i, x, done, e) ||
            !run_progress(s->run, a.work - a.told, a.what, e))
            return false;
    }
    states_turn(&s->states, done);
    probe_cache_forget(s->kept, s->side);
    return true;
}

bool forward_stream_pass_loops(forward_stream *s, size_t loop, const forward_layer *l, gq_error *e) {
    asking a = asking_of(s, NULL);
    for (size_t i = 0; i < s->states.batches; i++) {
        float *x = states_take(&s->states, i, false, e);
        if (!x ||
            (states_loop(&s->states, i) >= loop && !run_part(s, i, l, FORWARD_WHOLE, x, false, &a, e)) ||
            !states_put(&s->states, i, x, true, e) || !run_progress(s->run, 0, a.what, e))
            return false;
    }
    states_turn(&s->states, true);
    return true;
}

bool forward_stream_follow(forward_stream *s, forward_stream *from, size_t loop, gq_error *e) {
    for (size_t i = 0; i < s->states.batches; i++) {
        bool follows = states_loop(&s->states, i) >= loop;
        float *x = states_take(&s->states, i, follows, e), *y = x;
        if (follows) y = states_take(&from->states, i, false, e);
        if (!x || !y) return false;
        if (follows) memcpy(x, y, s->states.width * states_stride(&s->states, i) * sizeof *x);
        if (!states_put(&s->states, i, x, true, e)) return false;
    }
    states_turn(&s->states, true);
    return true;
}

/* Returns a copy of a batch's states that may be changed. States from a file are a copy already. */
static float *copy_of(forward_stream *s, size_t batch, gq_error *e) {
    size_t floats = s->states.width * states_stride(&s->states, batch);
    float *x = states_take(&s->states, batch, false, e);
    float *copy = x && s->states.held ? run_copy(s->run, s->model, e) : x;
    return copy && copy != x ? memcpy(copy, x, floats * sizeof *x) : copy;
}

bool forward_stream_probe(forward_stream *s, size_t batch, const forward_layer *l, forward_part part,
                          const forward_observer *observer, const float **after, gq_error *e) {
    asking a = asking_of(s, observer);
    float *x = copy_of(s, batch, e);
    if (after) *after = x;
    return x && run_part(s, batch, l, part, x, true, &a, e);
}
