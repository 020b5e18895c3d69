/* Telling how far models that are run have come, and asking whether to go on. */
#ifndef GQ_PULSE_H
#define GQ_PULSE_H

#include "quantize/gquant.h"

typedef struct pulse {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started, work, done; /* work: as forward_job_work counts */
} pulse;

/* `done` of the work was done by an earlier run. */
pulse pulse_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* Reports progress, as a forward_job's callback; data: a pulse. */
bool pulse_tell(void *data, double work, const char *what, gq_error *e);

#endif
