#include "base/relay.h"

#include <math.h>

#include "base/clock.h"

/* The highest share that is reported before the end. */
static const double MOST_UNFINISHED = .9999;

/* Members of gq_callbacks have one `user`, so the others are passed on here. */
static void relay_tensor_done(void *data, size_t output, size_t tensor, const gq_loss *loss) {
    const progress_relay *r = data;
    r->to.tensor_done(r->to.user, output, tensor, loss);
}

static bool relay_is_cancelled(void *data) {
    const progress_relay *r = data;
    return r->to.cancelled(r->to.user);
}

const gq_callbacks *relay_callbacks(progress_relay *r,
                                    void (*on_progress)(void *relay, const gq_progress *of_stage)) {
    r->own = (gq_callbacks){.size = sizeof r->own, .user = r};
    if (r->to.progress) r->own.progress = on_progress;
    if (r->to.tensor_done) r->own.tensor_done = relay_tensor_done;
    if (r->to.cancelled) r->own.cancelled = relay_is_cancelled;
    return &r->own;
}

gq_progress relay_progress(const progress_relay *r, const gq_progress *of_stage) {
    gq_progress now = *of_stage;
    double before = fmax(0, clock_seconds() - r->started - of_stage->seconds);
    now.seconds += before, now.seconds_resumed += before;
    return now;
}

double relay_share(const progress_relay *r, double share) {
    return fmax(r->last.share, fmin(MOST_UNFINISHED, share));
}

void relay_report(progress_relay *r, const gq_progress *now) {
    r->last = *now;
    r->to.progress(r->to.user, now);
}

void relay_end(progress_relay *r) {
    if (!r->last.size) return;
    gq_progress now = r->last;
    now.bytes_done = now.bytes_total, now.share = 1, now.seconds_left = 0, now.tensor = NULL;
    now.seconds = clock_seconds() - r->started;
    relay_report(r, &now);
}

/* ---- the share of the work that is done ---- */

/* The share of the work for which a forecast counts as much as if it had been measured, beside what this run
 * took. At first the forecast knows more, later the run; between them nothing jumps. */
static const double FORECAST_SHARE = .05;

/* spent: the seconds that this run took for its part. expected: seconds of the whole call. */
static double share_seconds_left(const gq_progress *p, double spent) {
    double done = p->share - p->share_resumed, own = 1 - p->share_resumed;
    double known = p->seconds_expected > 0 ? FORECAST_SHARE : 0;
    if (p->share >= 1) return 0;
    if (!(done + known > 0) || (!known && !(spent > 0))) return NAN;
    return (1 - p->share) * (spent + known * p->seconds_expected) / (done + known * own);
}

void share_set(gq_progress *p, double done, double resumed, double all) {
    p->share_resumed = all > 0 ? fmin(1, resumed / all) : 0;
    p->share = all > 0 ? fmin(1, done / all) : 0;
    if (p->bytes_done == p->bytes_total) p->share = 1;
    p->seconds_left = share_seconds_left(p, p->seconds - p->seconds_resumed);
}

void share_report_sample(const gq_callbacks *callbacks) {
    gq_progress now = {.size = sizeof now, .seconds_left = NAN, .tensor = "a sample of the work"};
    if (callbacks && callbacks->progress) callbacks->progress(callbacks->user, &now);
}

/* ---- a call and its stages ---- */

static void job_report(void *data, const gq_progress *of) {
    job_progress *j = data;
    gq_progress now = relay_progress(&j->relay, of);
    j->last_spent = of->seconds - of->seconds_resumed, j->last_resumed = of->share_resumed * j->own;
    if (j->expected > 0) now.seconds_expected = j->expected;
    double all = j->all > 0 ? j->all : 1;
    now.share = relay_share(&j->relay, (j->before + j->own * of->share) / all);
    now.share_resumed = fmin(now.share, (j->resumed + j->last_resumed) / all);
    now.seconds_left = share_seconds_left(&now, j->spent + j->last_spent);
    relay_report(&j->relay, &now);
}

void job_progress_begin(job_progress *j, const gq_callbacks *to, double all) {
    *j = (job_progress){.relay.started = clock_seconds(), .all = all};
    if (to) j->relay.own = j->relay.to = *to; /* until a stage begins */
}

const gq_callbacks *job_progress_stage(job_progress *j, double own) {
    j->before += j->own, j->own = own;
    j->spent += j->last_spent, j->resumed += j->last_resumed;
    j->last_spent = j->last_resumed = 0;
    return relay_callbacks(&j->relay, job_report);
}

void job_progress_end(job_progress *j) { relay_end(&j->relay); }
