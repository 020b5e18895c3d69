/* Runs an original and its copies on the same windows and compares their predictions. All models are streams
 * of one sweep (quantize/sweep/sweep.h): each layer is done for all of them before the next. Then the logits
 * are computed for a few windows and a tile of the vocabulary at a time, and go to forward/divergence.h,
 * which keeps sums per position. When all tiles of these windows have passed, the sums become scores
 * (figures.h). If the request names a file of logits, the original's are written to it in a pass of their own
 * before. A model file that changes during the run is an error. */
#include "quantize/inspect/side_by_side.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "forward/divergence.h"
#include "quantize/inspect/logits_file.h"
#include "quantize/sweep/memory_budget.h"
#include "quantize/sweep/sweep.h"

/* Bytes per position and model: the scores, and a copy of the divergences to sort them for quantiles. */
enum { SCORE_BYTES = 2 * sizeof(double) + sizeof(bool) + sizeof(double) };

/* A run, with what all its steps need. */
typedef struct contest {
    const side_by_side *s;
    scores *to;
    forward_job job;
    const forward_model **models;
    sweep sweep;
    /* Sums of the windows whose logits are being computed. */
    divergence *divergence;
    size_t first_window, n_windows;
    logits_file file;
} contest;

/* ---- scores ---- */

static bool start_scores(void *data, size_t first_window, size_t windows, gq_error *e) {
    contest *c = data;
    size_t context = c->job.context;
    c->first_window = first_window, c->n_windows = windows;
    divergence_free(c->divergence);
    c->divergence =
        divergence_of_windows(c->job.ids + first_window * context, windows, context, scored_from(context),
                              scored_of(context), c->s->n - 1, forward_run_pool(c->sweep.run), e);
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
        "%s: logits after token %zu of window %zu are not finite, or so far apart that they cannot "
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

static bool contest_score(contest *c, gq_error *e) {
    const forward_head head = {.from = scored_from(c->job.context),
                               .n = scored_of(c->job.context),
                               .start = start_scores,
                               .tile = add_scores,
                               .end = keep_scores,
                               .data = c};
    bool ok = forward_run_head(c->sweep.run, c->sweep.streams, c->s->n, &head, e);
    divergence_free(c->divergence);
    return ok;
}

/* ---- the original's logits of all positions ---- */

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
    return forward_run_head(c->sweep.run, c->sweep.streams, 1, &head, e);
}

/* Checks that no file has changed meanwhile: the figures would be of a model that never existed. */
static bool models_unchanged(const contest *c, gq_error *e) {
    for (size_t m = 0; m < c->s->n; m++)
        if (!model_unchanged(&c->s->runners[m].file, e)) return false;
    return true;
}

static bool run_with_file(contest *c, gq_error *e) {
    size_t vocabulary = forward_model_sizes(c->models[0])->vocabulary;
    if (!c->s->logits)
        return sweep_run(&c->sweep, &(sweep_calls){.data = c}, e) && contest_score(c, e) &&
               models_unchanged(c, e);
    if (!logits_file_start(&c->file, c->s->logits, c->s->replace_logits, c->job.windows * c->job.context,
                           vocabulary, e))
        return false;
    bool ok = sweep_run(&c->sweep, &(sweep_calls){.data = c}, e) && write_logits(c, e) &&
              contest_score(c, e) && models_unchanged(c, e);
    return logits_file_end(&c->file, ok, e);
}

/* ---- the run ---- */

static bool contest_prepare(contest *c, const side_by_side *s, gq_error *e) {
    size_t n = s->windows->n * scored_of(s->windows->context);
    *c = (contest){.s = s,
                   .job = {.ids = s->windows->ids,
                           .windows = s->windows->n,
                           .context = s->windows->context,
                           .threads = s->threads,
                           .memory = s->memory},
                   .models = calloc(s->n, sizeof *c->models)};
    if (!c->models) return gq_fail_memory(e, s->n * sizeof *c->models);
    size_t batch = forward_job_batch(&c->job) * scored_of(c->job.context);
    c->job.extra_bytes =
        plus(memory_budget_taken(), plus(times(s->n, n * SCORE_BYTES), divergence_bytes(batch, s->n - 1)));
    for (size_t m = 0; m < s->n; m++) c->models[m] = s->runners[m].model;
    return true;
}

bool side_by_side_bounds(const side_by_side *s, forward_bounds *to, gq_error *e) {
    contest c;
    bool ok = contest_prepare(&c, s, e);
    if (ok) *to = forward_bounds_of(&c.job, c.models, s->n, true);
    free(c.models);
    return ok;
}

/* Runs all models in one sweep, so that they are equally far at any time. Copies may have fewer layers. */
static bool run_all(contest *c, warning_list *warnings, gq_error *e) {
    const side_by_side *s = c->s;
    sweep_plan plan = {.job = &c->job,
                       .bounds = forward_bounds_of(&c->job, c->models, s->n, true),
                       .models = c->models,
                       .n_streams = s->n,
                       .folder = s->folder,
                       .callbacks = s->callbacks};
    for (size_t m = 0; m < s->n; m++) {
        plan.work += forward_job_work(&c->job, c->models[m], true);
        plan.n_layers = larger(plan.n_layers, forward_model_sizes(c->models[m])->layers);
    }
    bool ok = sweep_open(&c->sweep, &plan, e) && run_with_file(c, e) &&
              warnings_add_threads(warnings, sweep_threads(&c->sweep), e);
    sweep_close(&c->sweep);
    return ok;
}

bool side_by_side_run(const side_by_side *s, scores *to, warning_list *warnings, gq_error *e) {
    contest c;
    bool ok = contest_prepare(&c, s, e);
    c.to = to;
    ok = ok && run_all(&c, warnings, e);
    free(c.models);
    return ok;
}
