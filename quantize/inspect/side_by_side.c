#include "quantize/inspect/side_by_side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "forward/divergence.h"
#include "quantize/inspect/logits_file.h"
#include "quantize/sweep/memory_budget.h"
#include "quantize/sweep/pulse.h"

/* Bytes per position and model: the scores, and once more the doubles that are sorted. */
enum { SCORE_BYTES = 2 * sizeof(double) + sizeof(bool) + sizeof(double) };

/* A run, with what all its steps need. */
typedef struct contest {
    const side_by_side *s;
    scores *to;
    forward_job job;
    const forward_model **models;
    forward_run *run;
    forward_stream **streams;
    int states; /* descriptor of the file that they are in; -1: in memory */
    pulse pulse;
    /* Of the windows whose logits are being computed. */
    divergence *divergence;
    size_t first_window, n_windows;
    logits_file file;
} contest;

/* ---- layers ---- */

/* Layer by layer, so that all of them are as far when they are told to stop; copies may have fewer. */
static bool run_layers(contest *c, gq_error *e) {
    bool any = true;
    for (size_t m = 0; m < c->s->n; m++)
        if (!forward_stream_embed(c->streams[m], NULL, e)) return false;
    for (size_t layer = 0; any; layer++) {
        any = false;
        for (size_t m = 0; m < c->s->n; m++) {
            if (layer >= forward_model_sizes(c->models[m])->layers) continue;
            const forward_layer *l = forward_run_layer(c->run, c->models[m], layer, e);
            if (!l || !forward_stream_pass(c->streams[m], l, FORWARD_WHOLE, NULL, e)) return false;
            any = true;
        }
    }
    return true;
}

/* ---- scores ---- */

static bool start_scores(void *data, size_t first_window, size_t windows, gq_error *e) {
    contest *c = data;
    size_t context = c->job.context;
    c->first_window = first_window, c->n_windows = windows;
    divergence_free(c->divergence);
    c->divergence =
        divergence_of_windows(c->job.ids + first_window * context, windows, context, scored_from(context),
                              scored_of(context), c->s->n - 1, forward_run_pool(c->run), e);
    return c->divergence;
}

static bool add_scores(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                       gq_error *e) {
    contest *c = data;
    (void)e;
    divergence_tile(c->divergence, (uint32_t)first, (uint32_t)rows, logits, stride);
    return true;
}

static bool fail_place(const contest *c, size_t model, size_t at, gq_error *e) {
    size_t n = scored_of(c->job.context);
    return gq_fail(
        e,
        "%s: logits behind token %zu of window %zu are not finite, or so far apart that they cannot "
        "be compared",
        c->s->runners[model].path, at % n + scored_from(c->job.context) + 1, at / n + 1);
}

static bool keep_scores(void *data, gq_error *e) {
    contest *c = data;
    size_t n = scored_of(c->job.context), first = c->first_window * n;
    for (size_t t = 0; t < c->n_windows * n; t++) {
        divergence_figures original = divergence_at(c->divergence, t, 0);
        for (size_t m = 0; m < c->s->n; m++) {
            model_scores *to = &c->to->models[m];
            divergence_figures f = divergence_at(c->divergence, t, m);
            if (!isfinite(f.log_p) || !isfinite(f.divergence)) return fail_place(c, m, first + t, e);
            to->log_p[first + t] = f.log_p;
            if (m == 0) continue;
            to->divergence[first + t] = f.divergence;
            to->same_top[first + t] = f.top == original.top;
        }
    }
    return true;
}

static bool score(contest *c, gq_error *e) {
    const forward_head head = {.from = scored_from(c->job.context),
                               .n = scored_of(c->job.context),
                               .start = start_scores,
                               .tile = add_scores,
                               .end = keep_scores,
                               .data = c};
    bool ok = forward_run_head(c->run, c->streams, c->s->n, &head, e);
    divergence_free(c->divergence);
    return ok;
}

/* ---- the original's logits of all places ---- */

static bool start_logits(void *data, size_t first_window, size_t windows, gq_error *e) {
    contest *c = data;
    (void)e;
    c->first_window = first_window, c->n_windows = windows;
    return true;
}

static bool add_logits(void *data, size_t first, size_t rows, const float *const *logits, size_t stride,
                       gq_error *e) {
    contest *c = data;
    size_t context = c->job.context;
    return logits_file_add(&c->file, c->first_window * context, c->n_windows * context, first, rows,
                           logits[0], stride, e);
}

static bool write_logits(contest *c, gq_error *e) {
    const forward_head head = {.n = c->job.context, .start = start_logits, .tile = add_logits, .data = c};
    return forward_run_head(c->run, c->streams, 1, &head, e);
}

/* Else the figures would be of no model that there ever was. */
static bool models_unchanged(const contest *c, gq_error *e) {
    for (size_t m = 0; m < c->s->n; m++)
        if (!gguf_model_unchanged(&c->s->runners[m].file, e)) return false;
    return true;
}

static bool run_with_file(contest *c, gq_error *e) {
    size_t vocabulary = forward_model_sizes(c->models[0])->vocabulary;
    if (!c->s->logits) return run_layers(c, e) && score(c, e) && models_unchanged(c, e);
    if (!logits_file_start(&c->file, c->s->logits, c->s->replace_logits, c->job.windows * c->job.context,
                           vocabulary, e))
        return false;
    bool ok = run_layers(c, e) && write_logits(c, e) && score(c, e) && models_unchanged(c, e);
    return logits_file_end(&c->file, ok, e);
}

/* ---- all ---- */

static bool open_states(contest *c, gq_error *e) {
    uint64_t bytes = 0;
    for (size_t m = 0; m < c->s->n; m++)
        bytes = plus(bytes, forward_stream_bytes(c->models[m], c->job.windows, c->job.context));
    c->states = forward_keep_open(c->s->folder, bytes, e);
    return c->states >= 0;
}

static bool open_streams(contest *c, gq_error *e) {
    forward_bounds bounds = forward_bounds_of(&c->job, c->models, c->s->n, true);
    uint64_t at = 0;
    c->run = forward_run_new(&c->job, &bounds, e);
    if (!c->run || (bounds.in_file && !open_states(c, e))) return false;
    for (size_t m = 0; m < c->s->n; m++) {
        forward_keep keep = {.fd = c->states, .path = c->s->folder, .at = at, .slots = 1};
        at += forward_stream_bytes(c->models[m], c->job.windows, c->job.context);
        c->streams[m] = forward_stream_new(c->run, c->models[m], bounds.in_file ? &keep : NULL, e);
        if (!c->streams[m]) return false;
    }
    return true;
}

static bool prepare(contest *c, const side_by_side *s, gq_error *e) {
    size_t n = s->windows->n * scored_of(s->windows->context);
    *c = (contest){.s = s,
                   .job = {.ids = s->windows->ids,
                           .windows = s->windows->n,
                           .context = s->windows->context,
                           .threads = s->threads,
                           .memory = s->memory,
                           .besides = memory_budget_taken() + s->n * n * SCORE_BYTES,
                           .pulse = pulse_tell,
                           .data = &c->pulse},
                   .models = calloc(s->n, sizeof *c->models),
                   .streams = calloc(s->n, sizeof *c->streams),
                   .states = -1};
    if (!c->models || !c->streams) return gq_fail_memory(e, s->n * sizeof *c->streams);
    double work = 0;
    for (size_t m = 0; m < s->n; m++) {
        c->models[m] = s->runners[m].model;
        work += forward_job_work(&c->job, c->models[m], true);
    }
    c->pulse = pulse_start(s->callbacks, work, 0, s->windows->n * s->windows->context);
    return true;
}

static void finish(contest *c) {
    for (size_t m = 0; c->streams && m < c->s->n; m++) forward_stream_free(c->streams[m]);
    forward_run_free(c->run);
    if (c->states >= 0) close(c->states);
    free(c->models), free(c->streams);
}

bool side_by_side_bounds(const side_by_side *s, forward_bounds *to, gq_error *e) {
    contest c;
    bool ok = prepare(&c, s, e);
    if (ok) *to = forward_bounds_of(&c.job, c.models, s->n, true);
    finish(&c);
    return ok;
}

bool side_by_side_run(const side_by_side *s, scores *to, word_list *warnings, gq_error *e) {
    contest c;
    bool ok = prepare(&c, s, e);
    c.to = to;
    ok = ok && open_streams(&c, e) && run_with_file(&c, e) &&
         words_add_threads(warnings, threads_pool_count(forward_run_pool(c.run)), e);
    finish(&c);
    return ok;
}
