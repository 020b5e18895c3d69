/* Maps the progress of a subtask to the progress of the whole job: callbacks for the calls that do a job's
 * stages, in place of its caller's. */
#pragma once

#include "base/callbacks.h"

/* The first member of what makes the whole of the stages. It must not move while a stage is at work. */
typedef struct progress_relay {
    gq_callbacks to, own; /* the caller's, and those for a stage */
    double started;       /* by clock_seconds */
    gq_progress last;     /* as last reported; size 0: nothing was reported yet */
} progress_relay;

/* Returns the callbacks for a stage. on_progress: gets the relay, where the caller wants progress at all;
 * everything else is passed on unchanged. */
const gq_callbacks *relay_callbacks(progress_relay *r,
                                    void (*on_progress)(void *relay, const gq_progress *of_stage));
/* Returns a stage's progress, with the seconds of the whole job. */
gq_progress relay_progress(const progress_relay *r, const gq_progress *of_stage);
/* Returns a share as it may be reported before the end: it never falls, and is below 1. */
double relay_share(const progress_relay *r, double share);
void relay_report(progress_relay *r, const gq_progress *now);
/* Reports that all is done, if anything was reported before. */
void relay_end(progress_relay *r);

/* ---- the share of the work that is done ---- */

/* The progress of a call: the share of its work that is done, counted by the predicted time of each stage, and the
 * time left. A job has one or more stages, such as calibrating and writing. Each stage reports its own
 * gq_progress.share; job_progress makes of these the share of the whole call. The last call to the caller, and no
 * other, has a share of 1. */

/* Sets the shares of *p, and seconds_left by them and its seconds. done, resumed: parts of `all`, of any
 * unit. */
void share_set(gq_progress *p, double done, double resumed, double all);

/* Reports that a sample of the work is measured, before there is anything to count. callbacks: may be NULL. */
void share_report_sample(const gq_callbacks *callbacks);

typedef struct job_progress {
    progress_relay relay;
    double expected;                 /* seconds of the whole call; 0: unknown */
    double all;                      /* predicted seconds of all stages */
    double before, own;              /* the same of the stages before the one at work, and of that one */
    double resumed;                  /* the part of `before` that an earlier run had done */
    double spent;                    /* seconds that the stages before took in this run */
    double last_spent, last_resumed; /* of the stage at work */
} job_progress;

/* to: the caller's callbacks, or NULL; they are copied. all: predicted seconds of all stages, or any other
 * unit that is the same for all of them. *j must not move until job_progress_end. */
void job_progress_begin(job_progress *j, const gq_callbacks *to, double all);
/* Ends the stage at work, if any, and begins the next, which is handed these callbacks. */
const gq_callbacks *job_progress_stage(job_progress *j, double own);
/* Reports that all is done, if anything was reported before. Not after a failure. */
void job_progress_end(job_progress *j);
