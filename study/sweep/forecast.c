/* Measures how long running models takes. A first probe sends a few tokens through a layer; from its time
 * follows how many tokens fill the budget. These go through one layer of each kind, and what a token more
 * takes, the difference of both probes, stands for all layers of that kind. Decoding a layer's weights, which
 * a batch does once, is what both probes have in common; it is divided among a real batch's tokens. In a large
 * layer it is nearly all of the first probe, so the second one has SECOND_FACTOR times as many tokens,
 * whatever they take, and where it is most of that, too, as in bf16, there is a third. Of experts that are
 * not in memory a few stand for all, as each probe reads them. Hidden states stay as they are, since a probe
 * works on a copy. Of the output matrix a few tiles are computed and compared.
 */
#include "study/sweep/sweep.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/relay.h"
#include "forward/stream/head.h"
#include "forward/stream/kld.h"

static const double BUDGET = .6; /* seconds, for the layers of all models together */
static const double TILES = .2;  /* seconds, for tiles of the output matrices */

enum {
    FIRST_TOKENS = 16, /* of the first probe: fewer fill no vector */
    /* Tokens of the first probe, times the number of experts over the number that a token is routed to: 98 % of all
     * experts are then met, and decoded. */
    FIRST_SPREAD_TOKENS = 4,
    SECOND_FACTOR = 16, /* of the second probe at least, times the first one's tokens */
    THIRD_FACTOR = 2,   /* of another one, times the second one's, where most of that was decoding */
    MOST_KINDS = 4,     /* of layers; what is beyond counts as the last one */
    SOME_EXPERTS = 8,   /* experts that are run of a layer that does not fit */
};

/* ---- work ---- */

static double output_weights(const forward_model *m) {
    const forward_sizes *s = forward_model_sizes(m);
    return (double)s->vocabulary * (double)s->width;
}

double forecast_work(const forecast_request *r) {
    double tokens = (double)r->job->windows * (double)r->job->context, sum = 0;
    for (size_t i = 0; i < r->n_models; i++) {
        const forward_sizes *s = forward_model_sizes(r->models[i]);
        /* Two operations for each weight, which has two bytes: a quantized one has fewer, but has to be decoded.
         */
        sum += (double)s->layers * (double)s->layer_bytes * tokens;
        sum += 2 * output_weights(r->models[i]) * (double)r->scored * (double)r->job->windows;
    }
    return sum;
}

/* ---- layers ---- */

/* A small run of some of the job's first tokens. */
typedef struct forecast_sample {
    forward_job job;
    forward_run *run;
    forward_stream *stream;
    bool some; /* some experts are run in place of all */
} forecast_sample;

static void sample_close(forecast_sample *s) {
    forward_stream_free(s->stream);
    forward_run_free(s->run);
    *s = (forecast_sample){.run = NULL};
}

static bool sample_open(forecast_sample *s, const forecast_request *r, const forward_model *m, size_t tokens,
                        gq_error *e) {
    const forward_job *job = r->job;
    *s = (forecast_sample){.job = *job};
    s->job.probes = true, s->job.loops = 1, s->job.progress = NULL;
    s->job.marks = NULL, s->job.masked = NULL;
    s->job.context = min(tokens, job->context);
    s->job.windows = max(1, tokens / job->context);
    /* One batch in memory: the job's own batches are no smaller. */
    s->some = r->layer > 0;
    forward_bounds bounds = {.batch = s->job.windows, .layer = r->layer ? 1 : 0};
    return (s->run = forward_run_new(&s->job, &bounds, e)) &&
           (s->stream = forward_stream_new(s->run, m, NULL, e)) && forward_stream_embed(s->stream, NULL, e);
}

/* The experts that a probe meets, of which it runs some. */
typedef struct some_experts {
    size_t matrix, met;
    double started, seconds; /* of the experts that are run */
} some_experts;

static forward_answer experts_on_inputs(void *data, const forward_inputs *in, gq_error *e) {
    some_experts *x = data;
    double now = clock_seconds();
    (void)e;
    if (!in->routed || in->late) return FORWARD_ON;
    if (x->met && in->matrix == x->matrix) return x->met <= SOME_EXPERTS ? FORWARD_ON : FORWARD_SKIP;
    x->matrix = in->matrix;
    if (!x->met++) x->started = now;
    if (x->met == SOME_EXPERTS + 1) x->seconds = now - x->started;
    return x->met <= SOME_EXPERTS ? FORWARD_ON : FORWARD_SKIP;
}

static bool sample_probe(forecast_sample *s, const forward_layer *l, double *seconds, gq_error *e) {
    some_experts some = {.met = 0};
    const forward_observer observer = {.on_inputs = experts_on_inputs, .data = &some};
    double started = clock_seconds();
    if (!forward_stream_probe(s->stream, 0, l, FORWARD_WHOLE, s->some ? &observer : NULL, NULL, e))
        return false;
    *seconds = clock_seconds() - started;
    if (some.met > SOME_EXPERTS) *seconds += some.seconds * ((double)some.met / SOME_EXPERTS - 1);
    return true;
}

/* Probes until a part of the budget is spent, but at least twice, since the first probe touches new memory;
 * the fastest one counts. */
static bool probe_again(forecast_sample *s, const forward_layer *l, double budget, double *seconds,
                        gq_error *e) {
    double spent = 0, least = INFINITY, one;
    for (int i = 0; i < 2 || (spent < budget / 40 && i < 100); i++) {
        if (!sample_probe(s, l, &one, e)) return false;
        spent += one, least = fmin(least, one);
        if (spent > budget) break;
    }
    *seconds = least;
    return true;
}

typedef struct probe_time {
    size_t tokens;
    double seconds, read;
} probe_time;

static bool probe_layer(const forecast_request *r, const forward_model *m, size_t layer, size_t tokens,
                        double budget, probe_time *to, gq_error *e) {
    forecast_sample s;
    bool ok = sample_open(&s, r, m, tokens, e);
    double started = clock_seconds();
    const forward_layer *l = ok ? forward_run_layer(s.run, m, layer, e) : NULL;
    *to = (probe_time){.tokens = s.job.windows * s.job.context, .read = clock_seconds() - started};
    ok = l && probe_again(&s, l, budget, &to->seconds, e);
    sample_close(&s);
    return ok;
}

static size_t tokens_at_once(const forecast_request *r) {
    return (r->batch ? r->batch : forward_job_batch(r->job)) * r->job->context;
}

/* The number of tokens that a probe of so many seconds has room for, when a first one took these, but at least
 * SECOND_FACTOR times as many. No more than a batch has. */
static size_t tokens_within(const forecast_request *r, const probe_time *first, double seconds) {
    const forward_job *job = r->job;
    size_t most = tokens_at_once(r);
    double n = first->seconds > 0 ? (double)first->tokens * seconds / first->seconds : (double)most;
    size_t tokens = n < (double)most ? max((size_t)n, min(most, SECOND_FACTOR * first->tokens)) : most;
    return tokens < job->context ? max(tokens / FIRST_TOKENS * FIRST_TOKENS, first->tokens)
                                 : tokens / job->context * job->context;
}

/* Seconds for each further token, and those that both probes take whatever their length. */
static double seconds_each(const probe_time *first, const probe_time *more) {
    double each = (more->seconds - first->seconds) / (double)(more->tokens - first->tokens);
    return each > 0 ? each : more->seconds / (double)more->tokens;
}
static double seconds_common(const probe_time *more, double each) {
    return fmax(0, more->seconds - each * (double)more->tokens);
}

/* Probes a layer twice or three times; *first is the same as *more where a batch has no more tokens. */
static bool probe_twice(const forecast_request *r, const forward_model *m, size_t layer, double budget,
                        probe_time *first, probe_time *more, gq_error *e) {
    const forward_job *job = r->job;
    share_report_sample(r->callbacks);
    size_t few = max(FIRST_TOKENS, FIRST_SPREAD_TOKENS * forward_experts_spread(m)), most = tokens_at_once(r);
    if (!probe_layer(r, m, layer, min(few, job->context), budget / 4, first, e)) return false;
    size_t tokens = tokens_within(r, first, budget / 2);
    *more = *first;
    share_report_sample(r->callbacks);
    if (tokens <= first->tokens) return true;
    if (!probe_layer(r, m, layer, tokens, budget / 2, more, e)) return false;
    double each = seconds_each(first, more);
    tokens = min(most, THIRD_FACTOR * more->tokens);
    if (seconds_common(more, each) < more->seconds / 2 || tokens <= more->tokens) return true;
    return probe_layer(r, m, layer, tokens, budget / 2, more, e);
}

/* Adds what `count` layers like this one take. */
static bool measure_kind(const forecast_request *r, const forward_model *m, size_t layer, size_t count,
                         double budget, forecast_pace *to, gq_error *e) {
    probe_time first, more;
    if (!probe_twice(r, m, layer, budget, &first, &more, e)) return false;
    double each =
        more.tokens > first.tokens ? seconds_each(&first, &more) : more.seconds / (double)more.tokens;
    to->read += first.read * (double)count;
    to->token += (double)count * (each + seconds_common(&more, each) / (double)tokens_at_once(r));
    return true;
}

static bool measure_model(const forecast_request *r, const forward_model *m, double budget, forecast_pace *to,
                          gq_error *e) {
    size_t kinds[MOST_KINDS], counts[MOST_KINDS] = {0}, n = 0;
    for (size_t i = 0; i < forward_model_sizes(m)->layers; i++) {
        size_t k = 0;
        while (k < n && !forward_layers_alike(m, kinds[k], i)) k++;
        if (k == n && n < MOST_KINDS) kinds[n++] = i;
        counts[min(k, n - 1)]++;
    }
    for (size_t k = 0; k < n; k++)
        if (!measure_kind(r, m, kinds[k], counts[k], budget / (double)n, to, e)) return false;
    return true;
}

/* ---- logits ---- */

/* The tiles seen so far. */
typedef struct tiles {
    const forecast_sample *of;
    size_t n_models, positions, rows;
    kld *kld;
    double started, seconds;
    bool full; /* the time is up */
} tiles;

static bool tiles_start(void *data, size_t first_window, size_t windows, gq_error *e) {
    tiles *t = data;
    const forward_job *j = &t->of->job;
    t->kld = kld_of_windows(j, first_window, windows, j->context - 1 - t->positions, t->positions,
                            t->n_models - 1, forward_run_pool(t->of->run), e);
    t->started = clock_seconds();
    return t->kld;
}

static bool tiles_add(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                      gq_error *e) {
    tiles *t = data;
    kld_tile(t->kld, (uint32_t)first, (uint32_t)rows, logits, stride);
    t->rows += rows, t->seconds = clock_seconds() - t->started;
    t->full = t->seconds > TILES;
    return !t->full || gq_fail(e, "the time is up");
}

/* Computes logits of the last positions of a window of the sample, for all models. */
static bool measure_logits(const forecast_request *r, forecast_pace *to, gq_error *e) {
    enum { MOST_POSITIONS = 64 };
    forecast_sample s;
    forward_stream **streams = calloc(r->n_models + 1, sizeof *streams);
    if (!streams) return gq_fail_memory(e, r->n_models * sizeof *streams);
    size_t context = min(r->job->context, 2 * MOST_POSITIONS);
    bool ok = sample_open(&s, r, r->models[0], context, e);
    tiles t = {.of = &s, .n_models = r->n_models, .positions = min(r->scored, MOST_POSITIONS)};
    t.positions = min(t.positions, context - 1);
    streams[0] = s.stream;
    for (size_t i = 1; ok && i < r->n_models; i++)
        ok = (streams[i] = forward_stream_new(s.run, r->models[i], NULL, e)) &&
             forward_stream_embed(streams[i], NULL, e);
    const forward_head head = {.from = context - 1 - t.positions,
                               .n = t.positions,
                               .start = tiles_start,
                               .tile = tiles_add,
                               .data = &t};
    ok = ok && (forward_run_head(s.run, streams, r->n_models, &head, e) || t.full);
    if (ok)
        to->scored = t.seconds / (double)t.positions / (double)t.rows *
                     (double)forward_model_sizes(r->models[0])->vocabulary;
    for (size_t i = 1; i < r->n_models; i++) forward_stream_free(streams[i]);
    kld_free(t.kld);
    sample_close(&s);
    free(streams);
    return ok;
}

bool forecast_measure(const forecast_request *r, forecast_pace *to, gq_error *e) {
    *to = (forecast_pace){.read = 0};
    if (r->job->windows == 0) return true;
    for (size_t i = 0; i < r->n_models; i++)
        if (!measure_model(r, r->models[i], BUDGET / (double)r->n_models, to, e)) return false;
    return r->scored == 0 || r->job->context < 2 || forward_model_sizes(r->models[0])->embeds ||
           measure_logits(r, to, e);
}
