#include "study/evaluate/cached_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/relay.h"

/* Each group of copies computes the original's logits again. So many copies are in a group that this is at
 * most a sixteenth of its work: two of an 8 B model, whose output matrix is a fifteenth of it. */
enum { GROUP_SHARE = 16 };

typedef struct cached_run_state {
    const cached_run_request *request;
    side_by_side all; /* with the callbacks of the stage at work */
    job_progress job; /* stages: each file's checksum, and running the models */
    scores *to;
    warning_list *warnings;
    content_sum *contents; /* per runner */
    size_t *missing;       /* numbers of the runners whose scores are not kept, but for the original */
    size_t n_missing;
    bool has_original;
    score_cache scores;
    state_cache states;
    bool keeps;         /* the file of scores can be written */
    double logits_work; /* of side_by_side, of all groups */
} cached_run_state;

/* ---- what is there ---- */

/* What is to be run is known behind the checksums: until then all is. */
static bool cached_sum_up(cached_run_state *k, gq_error *e) {
    side_by_side *s = &k->all;
    k->contents = calloc(s->n, sizeof *k->contents);
    k->missing = calloc(s->n, sizeof *k->missing);
    if (!k->contents || !k->missing) return gq_fail_memory(e, s->n * sizeof *k->contents);
    k->job.all = side_by_side_usual_seconds(s);
    for (size_t i = 0; i < s->n; i++) k->job.all += content_seconds(&s->runners[i].file, s->threads);
    for (size_t i = 0; i < s->n; i++) {
        const model_source *m = &s->runners[i].file;
        const gq_callbacks *callbacks = job_progress_stage(&k->job, content_seconds(m, s->threads));
        if (!content_sum_up(m, s->threads, callbacks, &k->contents[i], e)) return false;
    }
    s->callbacks = job_progress_stage(&k->job, k->job.all - k->job.before - k->job.own);
    return true;
}

/* Opens the file of scores, and takes those that it has. */
static bool cached_open(cached_run_state *k, gq_error *e) {
    const side_by_side *s = &k->all;
    char of[SCORE_CACHE_OF];
    gq_error why = {0};
    score_cache_name(&k->contents[0], s->windows, of);
    k->keeps = score_cache_open(&k->scores, k->request->path, of, k->to->n, &why);
    if (!k->keeps && k->request->is_named) {
        if (e) *e = why;
        return false;
    }
    if (!k->keeps) return warnings_add(k->warnings, e, "scores are not kept: %s", why.text);
    k->has_original = score_cache_find(&k->scores, &k->contents[0], &k->to->models[0]);
    for (size_t i = 1; i < s->n; i++)
        if (!score_cache_find(&k->scores, &k->contents[i], &k->to->models[i])) k->missing[k->n_missing++] = i;
    return true;
}

static bool cached_open_states(cached_run_state *k, gq_error *e) {
    const side_by_side *s = &k->all;
    char of[SCORE_CACHE_OF], *path = NULL;
    gq_error why = {0};
    uint64_t bytes = forward_stream_bytes(s->runners[0].model, s->windows->n, s->windows->context);
    if (asprintf(&path, "%s.states", k->request->path) < 0)
        return gq_fail_memory(e, strlen(k->request->path));
    score_cache_name(&k->contents[0], s->windows, of);
    bool ok = state_cache_open(&k->states, path, of, bytes, &why) ||
              warnings_add(k->warnings, e, "the base model is run anew each time: %s", why.text);
    free(path);
    return ok;
}

/* ---- groups of copies ---- */

static size_t cached_group_size(const cached_run_state *k) {
    if (k->states.fd < 0) return max(1, k->n_missing);
    const forward_sizes *z = forward_model_sizes(k->all.runners[0].model);
    double head = (double)z->out->size, layers = (double)z->layers * (double)z->layer_bytes;
    double copies = ceil(GROUP_SHARE * head / (layers + head + 1));
    return copies > 1 ? (size_t)copies : 1;
}

/* A run of the original and some of the missing copies, with arrays of its own. */
typedef struct cached_group {
    side_by_side s;
    scores to;
} cached_group;

static bool cached_group_fill(const cached_run_state *k, size_t first, size_t n, cached_group *g,
                              gq_error *e) {
    runner *runners = calloc(n + 1, sizeof *runners);
    g->s = k->all, g->to = *k->to;
    g->s.logits_work = k->logits_work;
    g->to.models = calloc(n + 1, sizeof *g->to.models);
    g->s.runners = runners, g->s.n = g->to.n_models = n + 1;
    if (!runners || !g->to.models) return gq_fail_memory(e, (n + 1) * sizeof *runners);
    for (size_t i = 0; i <= n; i++) {
        size_t from = i ? k->missing[first + i - 1] : 0;
        runners[i] = k->all.runners[from], g->to.models[i] = k->to->models[from];
    }
    return true;
}

static void cached_group_free(cached_group *g) {
    free((void *)g->s.runners), free(g->to.models);
    *g = (cached_group){.to.n = 0};
}

/* Keeps the scores of a group. Where that fails, those of the others are not kept either. */
static bool cached_add_group(cached_run_state *k, size_t first, size_t n, gq_error *e) {
    gq_error why = {0};
    for (size_t i = 0; k->keeps && i <= n; i++) {
        size_t of = i ? k->missing[first + i - 1] : 0;
        if (!i && k->has_original) continue;
        k->keeps = score_cache_add(&k->scores, &k->contents[of], &k->to->models[of], &why);
    }
    k->has_original = true;
    return k->keeps || !*why.text || warnings_add(k->warnings, e, "scores are not kept: %s", why.text);
}

/* Measures all that is to be run, as if it were one run. */
static bool cached_forecast(cached_run_state *k, double *seconds, gq_error *e) {
    cached_group all = {.to.n = 0};
    bool ok = cached_group_fill(k, 0, k->n_missing, &all, e);
    if (ok) side_by_side_forecast(&all.s);
    double whole = ok ? side_by_side_work(&all.s) : 0;
    all.s.states = k->states.fd >= 0 ? &k->states : NULL;
    if (ok && whole > 0) *seconds = all.s.seconds_expected * side_by_side_work(&all.s) / whole;
    k->logits_work = all.s.logits_work;
    cached_group_free(&all);
    return ok;
}

/* Returns the work of all groups. */
static bool cached_work(const cached_run_state *k, size_t at_once, double *work, gq_error *e) {
    bool ok = true;
    state_cache later = k->states; /* the first group makes them */
    size_t n;
    for (size_t first = 0; ok && (!first || first < k->n_missing); first += max(1, n)) {
        cached_group g = {.to.n = 0};
        n = min(at_once, k->n_missing - first);
        ok = cached_group_fill(k, first, n, &g, e);
        g.s.states = k->states.fd >= 0 ? &later : NULL;
        if (ok) *work += side_by_side_work(&g.s);
        later.whole = true;
        cached_group_free(&g);
    }
    return ok;
}

static bool cached_run_groups(cached_run_state *k, double seconds_expected, gq_error *e) {
    double work = 0, done = 0, started = clock_seconds();
    size_t at_once = cached_group_size(k), n;
    bool ok = cached_work(k, at_once, &work, e);
    if (seconds_expected > 0) { /* by which what is left counts from here on, beside what checksums took */
        k->job.expected = started - k->job.relay.started + seconds_expected;
        k->job.own = seconds_expected, k->job.before = k->job.spent, k->job.all = k->job.spent + k->job.own;
    }
    for (size_t first = 0; ok && (!first || first < k->n_missing); first += max(1, n)) {
        cached_group g = {.to.n = 0};
        n = min(at_once, k->n_missing - first);
        ok = cached_group_fill(k, first, n, &g, e);
        g.s.states = k->states.fd >= 0 ? &k->states : NULL;
        g.s.work = work, g.s.done = done, g.s.started = started, g.s.seconds_expected = seconds_expected;
        if (ok) done += side_by_side_work(&g.s);
        ok = ok && side_by_side_run(&g.s, &g.to, k->warnings, e) && cached_add_group(k, first, n, e);
        cached_group_free(&g);
    }
    return ok;
}

bool cached_run(const cached_run_request *r, scores *to, double *seconds_expected, warning_list *warnings,
                gq_error *e) {
    cached_run_state k = {.request = r, .all = *r->all, .to = to, .warnings = warnings, .states.fd = -1};
    *seconds_expected = 0;
    job_progress_begin(&k.job, r->all->callbacks, 0);
    bool ok = cached_sum_up(&k, e) && cached_open(&k, e);
    if (ok && !k.keeps)
        for (size_t i = 1; i < r->all->n; i++) k.missing[k.n_missing++] = i;
    bool runs = k.n_missing || !k.has_original;
    ok = ok && (!runs || !k.keeps || cached_open_states(&k, e)) &&
         (!runs || !r->forecast || cached_forecast(&k, seconds_expected, e)) &&
         (!runs || cached_run_groups(&k, *seconds_expected, e));
    if (ok) job_progress_end(&k.job);
    state_cache_close(&k.states), score_cache_close(&k.scores);
    free(k.contents), free(k.missing);
    return ok;
}
