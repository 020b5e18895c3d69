/* Runs that are interrupted, and what the next plan reports about them. */
#pragma once

#include <sys/types.h>

#include "tests/support/model.h"

typedef struct stopper {
    _Atomic uint64_t chunks; /* read by the callback `cancelled`, which any thread may call */
    uint64_t after;          /* stop when so many chunks are done; 0: run to the end */
    uint64_t resumed, done, total;
    gq_progress last;
} stopper;

/* Of a run of one output, whose finished work is safe after a millisecond. */
gq_options run_options(const char *in, const gq_output *out, int threads);
gq_callbacks stopper_callbacks(stopper *s);
/* Run until `after` chunks. The plan must succeed. */
gq_status run_some(const gq_options *options, stopper *s, gq_error *e);
/* Whether a warning of the plan contains the text. */
bool announced(const gq_options *options, const char *says);

/* Start a run of part o->part in a process of its own, which begins as the command does: main() of the test
 * hands four arguments to run_as_asked and returns what that does. */
pid_t start_run(const gq_options *o);
int run_as_asked(char **arguments);
/* Wait for a process that does a run and ends with 0, or is killed meanwhile: whether it ended. */
bool run_finished(pid_t child);
