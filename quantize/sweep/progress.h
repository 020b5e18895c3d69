/* Reports the progress of models that are run to the caller's callbacks, and asks whether to continue. */
#ifndef GQ_SWEEP_PROGRESS_H
#define GQ_SWEEP_PROGRESS_H

#include "quantize/gquant.h"

typedef struct sweep_progress {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started, work, done; /* started: by clock_seconds, in seconds; work, done: in forward_job_work's
                                   unit, or the sweep's own */
} sweep_progress;

/* done: the part of the work that an earlier run did. tokens: of the text, for gq_progress. */
sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* Reports work done since the last call (0: none). It is a forward_job's callback: data is a sweep_progress,
 * `what` names the step and is not copied. false: the caller cancelled, GQ_INTERRUPTED. */
bool sweep_progress_report(void *data, double work, const char *what, gq_error *e);

#endif
