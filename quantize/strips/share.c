#include "quantize/strips/share.h"

#include <math.h>

#include "base/clock.h"

/* The share of the work for which a forecast counts as much as if it had been measured, beside what this run
 * took. At first the forecast knows more, later the run; between them nothing jumps. */
static const double FORECAST_SHARE = .05;

/* The most that is told before the end. */
static const double MOST_UNFINISHED = .9999;

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

void share_tell_sample(const gq_callbacks *callbacks) {
    gq_progress now = {.size = sizeof now, .seconds_left = NAN, .tensor = "a sample of the work"};
    if (callbacks && callbacks->progress) callbacks->progress(callbacks->user, &now);
}

/* ---- a call and its stages ---- */

static void job_tell(void *data, const gq_progress *of) {
    job_progress *j = data;
    gq_progress now = *of;
    double elapsed = clock_seconds() - j->started, before = fmax(0, elapsed - of->seconds);
    j->last_spent = of->seconds - of->seconds_resumed, j->last_resumed = of->share_resumed * j->own;
    now.seconds = of->seconds + before, now.seconds_resumed = of->seconds_resumed + before;
    if (j->expected > 0) now.seconds_expected = j->expected;
    double all = j->all > 0 ? j->all : 1;
    now.share = fmax(j->last.share, fmin(MOST_UNFINISHED, (j->before + j->own * of->share) / all));
    now.share_resumed = fmin(now.share, (j->resumed + j->last_resumed) / all);
    now.seconds_left = share_seconds_left(&now, j->spent + j->last_spent);
    j->last = now;
    j->to.progress(j->to.user, &now);
}

void job_progress_begin(job_progress *j, const gq_callbacks *to, double all) {
    *j = (job_progress){.started = clock_seconds(), .all = all};
    if (to) j->to = *to;
    j->stage = j->to;
}

/* Members of gq_callbacks have one `user`, so the others are passed on here. */
static void job_tensor_done(void *data, size_t output, size_t tensor, const gq_loss *loss) {
    const job_progress *j = data;
    j->to.tensor_done(j->to.user, output, tensor, loss);
}
static bool job_is_cancelled(void *data) {
    const job_progress *j = data;
    return j->to.cancelled(j->to.user);
}

const gq_callbacks *job_progress_stage(job_progress *j, double own) {
    j->before += j->own, j->own = own;
    j->spent += j->last_spent, j->resumed += j->last_resumed;
    j->last_spent = j->last_resumed = 0;
    j->stage = (gq_callbacks){.size = sizeof j->stage, .user = j};
    if (j->to.progress) j->stage.progress = job_tell;
    if (j->to.tensor_done) j->stage.tensor_done = job_tensor_done;
    if (j->to.cancelled) j->stage.cancelled = job_is_cancelled;
    return &j->stage;
}

void job_progress_end(job_progress *j) {
    if (!j->last.size) return;
    j->last.bytes_done = j->last.bytes_total, j->last.share = 1;
    j->last.seconds_left = 0, j->last.tensor = NULL;
    j->last.seconds = clock_seconds() - j->started;
    j->to.progress(j->to.user, &j->last);
}
