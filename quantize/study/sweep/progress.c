#include "quantize/study/sweep/progress.h"

#include <math.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/relay.h"

static uint64_t bytes_of(double work) { return work > 0 ? (uint64_t)work : 0; }

sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done,
                                    uint64_t tokens) {
    sweep_progress p = {.callbacks = callbacks,
                        .started = clock_seconds(),
                        .work = work,
                        .done = done,
                        .resumed = done,
                        .begin = done,
                        .end = work,
                        .next = done,
                        .limit = work};
    p.progress = (gq_progress){.size = sizeof p.progress,
                               .bytes_total = bytes_of(work),
                               .bytes_done = bytes_of(done),
                               .bytes_resumed = bytes_of(done),
                               .tokens = tokens};
    return p;
}

void sweep_progress_span(sweep_progress *p, double begin, double end) {
    p->done = fmax(p->done, fmin(begin, p->work));
    p->begin = p->next = p->done;
    p->end = p->limit = fmax(p->begin, fmin(end, p->work));
}

void sweep_progress_piece(sweep_progress *p, double work) {
    p->begin = p->next;
    p->end = p->next = fmin(p->begin + work, p->limit);
    p->done = fmax(p->done, p->begin);
}

static void progress_tell(sweep_progress *p, const char *what) {
    const gq_callbacks *calls = p->callbacks;
    if (!calls || !calls->progress) return;
    /* Sums of parts may miss the whole by their rounding. */
    static const double NEARLY = 1 - 1e-9;
    p->progress.bytes_done = p->done < NEARLY * p->work ? bytes_of(p->done) : p->progress.bytes_total;
    p->progress.seconds = clock_seconds() - p->started;
    p->progress.tensor = what;
    share_set(&p->progress, p->done, p->resumed, p->work);
    calls->progress(calls->user, &p->progress);
}

void sweep_progress_within(sweep_progress *p, double share, const char *what) {
    p->done = fmax(p->done, p->begin + fmin(share, 1) * (p->end - p->begin));
    progress_tell(p, what);
}

bool sweep_progress_report(void *data, double work, const char *what, gq_error *e) {
    sweep_progress *p = data;
    const gq_callbacks *calls = p->callbacks;
    p->done = fmax(p->done, fmin(p->done + work, p->end));
    progress_tell(p, what);
    if (!calls || !calls->cancelled || !calls->cancelled(calls->user)) return true;
    return gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}
