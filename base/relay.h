/* Callbacks that a job hands to the calls which do its parts, in place of its caller's: what a part tells of
 * itself becomes what is told of the whole. */
#ifndef GQ_RELAY_H
#define GQ_RELAY_H

#include "base/callbacks.h"

/* The first member of what makes the whole of the parts. It must not move while a part is at work. */
typedef struct progress_relay {
    gq_callbacks to, own; /* the caller's, and those for a part */
    double started;       /* by clock_seconds */
    gq_progress last;     /* as it was told; size 0: nothing was told yet */
} progress_relay;

/* Returns the callbacks for a part. on_progress: gets the relay, where the caller wants to be told at all;
 * all else is passed on as it is. */
const gq_callbacks *relay_callbacks(progress_relay *r,
                                    void (*on_progress)(void *relay, const gq_progress *of_part));
/* Returns what a part tells, with the seconds of the whole. */
gq_progress relay_progress(const progress_relay *r, const gq_progress *of_part);
/* Returns a share as it may be told before the end: it never falls, and is below 1. */
double relay_share(const progress_relay *r, double share);
void relay_tell(progress_relay *r, const gq_progress *now);
/* Tells that all is done, if anything was told before. */
void relay_end(progress_relay *r);

#endif
