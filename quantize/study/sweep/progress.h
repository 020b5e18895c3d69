/* Reports the progress of models that are run to the caller's callbacks, and asks whether to continue. */
#ifndef GQ_SWEEP_PROGRESS_H
#define GQ_SWEEP_PROGRESS_H

#include "base/callbacks.h"
#include "base/error.h"

/* The work is a line from 0 to `work`, in forward_job_work's unit or the user's own. It may be cut into
 * spans, such as the steps of a sweep, and these into pieces, whose predicted work need not be met: what is
 * told of a piece stays within it, and the next one begins where it ends, so that the share that is told
 * never falls and ends at 1. */
typedef struct sweep_progress {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;
    double started; /* by clock_seconds, in seconds */
    double work, done, resumed;
    double begin, end; /* of the piece at hand */
    double next;       /* where the next piece begins, */
    double limit;      /* and where the last one of the span ends */
} sweep_progress;

/* done: the part of the work that an earlier run did. tokens: of the text, for gq_progress. */
sweep_progress sweep_progress_start(const gq_callbacks *callbacks, double work, double done, uint64_t tokens);
/* What follows is the work from `begin` to `end`; all before is done. */
void sweep_progress_span(sweep_progress *p, double begin, double end);
/* What follows is a piece of the span, of so much work. */
void sweep_progress_piece(sweep_progress *p, double work);
/* Tells that a share of the piece at hand is done. It asks nothing, and threads may call it in turn. */
void sweep_progress_within(sweep_progress *p, double share, const char *what);
/* Reports work done since the last call (0: none). It is a forward_job's callback: data is a sweep_progress,
 * `what` names the step and is not copied. false: the caller cancelled, GQ_INTERRUPTED. */
bool sweep_progress_report(void *data, double work, const char *what, gq_error *e);

#endif
