/* Telling how far models that are run have come, and asking whether to go on. */
#ifndef GQ_SWEEP_PROGRESS_H
#define GQ_SWEEP_PROGRESS_H

#include "quantize/gquant.h"

typedef struct sweep_progress {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started, work, done; /* work: as forward_job_work counts */
} sweep_progress;

/* `done` of the work was done by an earlier run. */
sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* Reports progress, as a forward_job's callback; data: a progress. */
bool sweep_progress_report(void *data, double work, const char *what, gq_error *e);

#endif
