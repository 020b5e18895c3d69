#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/relay.h"

/* Each group of quants computes the base model's logits again. So many quants are in a group that this is at
 * most a sixteenth of its work: two of an 8 B model, whose output matrix is a fifteenth of it. */
enum { GROUP_SHARE = 16 };

typedef struct cached_run_state {
    const cached_run_request *request;
    side_by_side all; /* with the callbacks of the stage at work */
    job_progress job; /* stages: each file's checksum, and running the models */
    scores *to;
    warning_list *warnings;
    content_sum *contents; /* per runner */
    size_t *missing;       /* numbers of the runners whose scores are not kept, but for the base model */
    size_t n_missing;
    runner *runners; /* cached_group has both */
    model_scores *models;
    bool has_base_model;
    score_cache scores;
    hidden_state_cache hidden_states;
    bool keeps;         /* the file of scores can be written */
    double logits_work; /* of side_by_side, of all groups */
} cached_run_state;

/* ---- what is there ---- */

/* Until checksums show which models have to be run, all models count. */
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
    if (!k->keeps) return warnings_add(k->warnings, e, "scores are not saved: %s", why.text);
    k->has_base_model = score_cache_find(&k->scores, &k->contents[0], &k->to->models[0]);
    for (size_t i = 1; i < s->n; i++)
        if (!score_cache_find(&k->scores, &k->contents[i], &k->to->models[i])) k->missing[k->n_missing++] = i;
    return true;
}

static bool cached_open_hidden_states(cached_run_state *k, gq_error *e) {
    const side_by_side *s = &k->all;
    char of[SCORE_CACHE_OF], *path = NULL;
    gq_error why = {0};
    uint64_t bytes = forward_stream_bytes(s->runners[0].model, s->windows->n, s->windows->context);
    if (asprintf(&path, "%s.states", k->request->path) < 0)
        return gq_fail_memory(e, strlen(k->request->path));
    score_cache_name(&k->contents[0], s->windows, of);
    bool ok = hidden_state_cache_open(&k->hidden_states, path, of, bytes, &why) ||
              warnings_add(k->warnings, e,
                           "the base model's hidden states are not saved, so it runs again each time: %s",
                           why.text);
    free(path);
    return ok;
}

/* ---- groups of quants ---- */

static size_t cached_group_size(const cached_run_state *k) {
    if (k->hidden_states.fd < 0) return max(1, k->n_missing);
    const forward_sizes *z = forward_model_sizes(k->all.runners[0].model);
    double head = (double)z->out->size, layers = (double)z->layers * (double)z->layer_bytes;
    double quants = ceil(GROUP_SHARE * head / (layers + head + 1));
    return quants > 1 ? (size_t)quants : 1;
}

/* A run of the base model and of so many missing quants from the first-th on. Arrays have the missing quants
 * one behind another, and the base model takes the place before a group's first, whose quant is done. */
static side_by_side cached_group(cached_run_state *k, size_t first, size_t n) {
    side_by_side s = k->all;
    k->runners[first] = k->all.runners[0], k->models[first] = k->to->models[0];
    s.runners = k->runners + first, s.n = n + 1;
    s.logits_work = k->logits_work, s.hidden_states = k->hidden_states.fd >= 0 ? &k->hidden_states : NULL;
    return s;
}

static bool cached_list_missing(cached_run_state *k, gq_error *e) {
    k->runners = calloc(k->n_missing + 1, sizeof *k->runners);
    k->models = calloc(k->n_missing + 1, sizeof *k->models);
    if (!k->runners || !k->models) return gq_fail_memory(e, (k->n_missing + 1) * sizeof *k->runners);
    for (size_t i = 0; i < k->n_missing; i++)
        k->runners[i + 1] = k->all.runners[k->missing[i]], k->models[i + 1] = k->to->models[k->missing[i]];
    return true;
}

/* Keeps the scores of a group. Where that fails, those of the others are not kept either. */
static bool cached_add_group(cached_run_state *k, size_t first, size_t n, gq_error *e) {
    gq_error why = {0};
    for (size_t i = k->has_base_model; k->keeps && i <= n; i++) {
        size_t of = i ? k->missing[first + i - 1] : 0;
        k->keeps = score_cache_add(&k->scores, &k->contents[of], &k->to->models[of], &why);
    }
    k->has_base_model = true;
    return k->keeps || !*why.text || warnings_add(k->warnings, e, "scores are not saved: %s", why.text);
}

/* Measures all that is to be run, as if it were one run. */
static void cached_forecast(cached_run_state *k, double *seconds) {
    side_by_side all = cached_group(k, 0, k->n_missing), afresh = all;
    afresh.hidden_states = NULL;
    side_by_side_forecast(&afresh);
    k->logits_work = all.logits_work = afresh.logits_work;
    double whole = side_by_side_work(&afresh);
    if (whole > 0) *seconds = afresh.seconds_expected * side_by_side_work(&all) / whole;
}

/* Returns the work of all groups, each of which but the first adds logits of the base model. */
static double cached_work(cached_run_state *k, size_t groups) {
    hidden_state_cache whole = {.whole = true};
    side_by_side all = cached_group(k, 0, k->n_missing), again = all;
    again.n = 1, again.hidden_states = &whole;
    return side_by_side_work(&all) + (double)(groups - 1) * side_by_side_work(&again);
}

static bool cached_run_groups(cached_run_state *k, double seconds_expected, gq_error *e) {
    size_t at_once = cached_group_size(k), groups = max(1, ceil_div(k->n_missing, at_once));
    double work = cached_work(k, groups), done = 0, started = clock_seconds();
    if (seconds_expected > 0) { /* by which what is left counts from here on, beside what checksums took */
        k->job.expected = started - k->job.relay.started + seconds_expected;
        k->job.own = seconds_expected, k->job.before = k->job.spent, k->job.all = k->job.spent + k->job.own;
    }
    for (size_t g = 0; g < groups; g++) {
        size_t first = g * at_once, n = min(at_once, k->n_missing - first);
        side_by_side s = cached_group(k, first, n);
        scores to = *k->to;
        to.models = k->models + first, to.n_models = n + 1;
        s.work = work, s.done = done, s.started = started, s.seconds_expected = seconds_expected;
        done += side_by_side_work(&s);
        if (!side_by_side_run(&s, &to, k->warnings, e) || !cached_add_group(k, first, n, e)) return false;
    }
    return true;
}

bool cached_run(const cached_run_request *r, scores *to, double *seconds_expected, warning_list *warnings,
                gq_error *e) {
    cached_run_state k = {
        .request = r, .all = *r->all, .to = to, .warnings = warnings, .hidden_states.fd = -1};
    *seconds_expected = 0;
    job_progress_begin(&k.job, r->all->callbacks, 0);
    bool ok = cached_sum_up(&k, e) && cached_open(&k, e);
    if (ok && !k.keeps)
        for (size_t i = 1; i < r->all->n; i++) k.missing[k.n_missing++] = i;
    bool runs = k.n_missing || !k.has_base_model;
    ok = ok && (!runs || !k.keeps || cached_open_hidden_states(&k, e)) &&
         (!runs || cached_list_missing(&k, e));
    if (ok && runs && r->forecast) cached_forecast(&k, seconds_expected);
    ok = ok && (!runs || cached_run_groups(&k, *seconds_expected, e));
    if (ok) job_progress_end(&k.job);
    hidden_state_cache_close(&k.hidden_states), score_cache_close(&k.scores);
    free(k.contents), free(k.missing), free(k.runners), free(k.models);
    return ok;
}
