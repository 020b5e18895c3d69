#include "publish/phases.h"

#include <math.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sized.h"
#include "base/threads.h"

/* The largest share reported before the files are planned. */
static const double MOST_PLANNING = .05;

/* The share of a phase for which its prediction counts as much as what it reports itself. */
static const double PREDICTION_SHARE = .05;

/* Seconds of a usual processor's thread: to read, decode and check a byte, to add it to a SHA-256, and for a
 * weight and a token of a model that is run. */
static const double CHECKED_BYTE = 2e-9, SUMMED_BYTE = 4e-9, PRODUCT = 2.5e-11;

/* ---- predictions ---- */

void phases_predict(publication_phases *p, const gq_plan *plan, bool force, uint64_t summed) {
    size_t n = gq_plan_outputs(plan), missing = 0;
    uint64_t checked = 0;
    struct stat st;
    for (size_t i = 0; i < n; i++) {
        const gq_summary *s = gq_plan_summary(plan, i);
        bool is_kept = !force && stat(s->path, &st) == 0;
        if (is_kept && !checked) checked = s->in_bytes; /* read once for all files */
        checked += is_kept ? s->file_bytes : 0, missing += !is_kept;
    }
    p->seconds[PHASE_VERIFY] = (double)checked * CHECKED_BYTE / threads_asked(0);
    p->seconds[PHASE_MAKE] = missing ? gq_plan_run_seconds(plan) * (double)missing / (double)n : 0;
    p->seconds[PHASE_SUMS] = (double)summed * SUMMED_BYTE;
    p->is_known = true;
}

double phases_usual_evaluation(const gq_plan *plan, const gq_evaluation_request *r, uint64_t tokens) {
    double models = 1 + (double)gq_plan_outputs(plan);
    return models * (double)gq_plan_summary(plan, 0)->n_weights * (double)tokens * PRODUCT /
           threads_asked(r->threads);
}

/* ---- progress ---- */

/* Returns the seconds that are left of the phase at work. */
static double phases_own_left(const publication_phases *p, const gq_progress *of) {
    double done = of->share - of->share_resumed, all = 1 - of->share_resumed;
    if (!(of->share < 1)) return 0;
    double predicted = p->seconds[p->at] * (1 - of->share) / all;
    if (!(done > 0) || isnan(of->seconds_left)) return predicted;
    return (of->seconds_left * done + predicted * PREDICTION_SHARE * all) / (done + PREDICTION_SHARE * all);
}

static double phases_later(const publication_phases *p) {
    double sum = 0;
    for (size_t i = 0; i < PHASES; i++) sum += i == p->at ? 0 : p->seconds[i];
    return sum;
}

static void phases_report(void *data, const gq_progress *of) {
    publication_phases *p = data;
    gq_progress now = relay_progress(&p->relay, of);
    double elapsed = clock_seconds() - p->relay.started, left = phases_own_left(p, of) + phases_later(p);
    now.seconds_left = p->is_known ? left : (double)NAN;
    if (p->is_known) now.seconds_expected = p->expected;
    now.share = relay_share(&p->relay, p->is_known ? elapsed / (elapsed + left) : MOST_PLANNING * of->share);
    now.share_resumed = 0;
    relay_report(&p->relay, &now);
}

const gq_callbacks *phases_begin(publication_phases *p, publication_phase phase, const gq_callbacks *to) {
    gq_error unused; /* it was asked before the work */
    double now = clock_seconds();
    if (!SIZED_TAKE(p->relay.to, to, &unused)) p->relay.to = (gq_callbacks){0};
    if (!(p->relay.started > 0)) p->relay.started = now;
    p->at = phase;
    bool is_work = phase != PHASE_PLAN && phase != PHASE_VERIFY;
    p->expected =
        p->is_measured && is_work ? now - p->relay.started + p->seconds[phase] + phases_later(p) : 0;
    return relay_callbacks(&p->relay, phases_report);
}

void phases_leave(publication_phases *p) { p->seconds[p->at] = 0; }

void phases_end(publication_phases *p) { relay_end(&p->relay); }
