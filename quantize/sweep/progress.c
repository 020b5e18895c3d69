#include "quantize/sweep/progress.h"
#include "base/clock.h"
#include "base/fail.h"

static uint64_t bytes_of(double work) { return work > 0 ? (uint64_t)work : 0; }

sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done,
                                    uint64_t tokens) {
    sweep_progress p = {.callbacks = callbacks, .started = clock_seconds(), .work = work, .done = done};
    p.progress = (gq_progress){.size = sizeof p.progress,
                               .bytes_total = bytes_of(work),
                               .bytes_done = bytes_of(done),
                               .bytes_resumed = bytes_of(done),
                               .tokens = tokens};
    return p;
}

bool sweep_progress_report(void *data, double work, const char *what, gq_error *e) {
    sweep_progress *p = data;
    const gq_callbacks *calls = p->callbacks;
    p->done += work;
    p->progress.bytes_done = bytes_of(p->done < p->work ? p->done : p->work);
    p->progress.seconds = clock_seconds() - p->started;
    p->progress.tensor = what;
    if (calls && calls->progress) calls->progress(calls->user, &p->progress);
    if (!calls || !calls->cancelled || !calls->cancelled(calls->user)) return true;
    return gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}
