/* Messages while a run works: a progress line on a terminal, a line per tensor with --verbose; and Ctrl-C. */
#pragma once

#include "cli/report/report.h"

typedef struct progress {
    const gq_plan *plan;  /* NULL: there is none yet */
    const char *phase;    /* "plan", "calibrate", "quantize", "compare", "verify", "evaluate", "importance",
                             "checksums" */
    const char *input;    /* as given */
    int events;           /* descriptor for JSON lines, -1: none */
    bool is_followed;     /* by events, on the descriptor or in the log */
    bool verbose;         /* a line per tensor */
    bool terminal;        /* standard error is one, and --quiet was not given */
    bool lines;           /* standard error is none: a line every 10 % of a run that takes long */
    bool shown;           /* the line is on the screen */
    bool is_part;         /* of a call whose progress goes on from phase to phase */
    bool is_time_told;    /* how long it will take */
    bool is_sent_told;    /* what a rank sends for a layer */
    int tenths;           /* of the work, that a line was written for */
    double last;          /* when, in seconds of the run */
    gq_progress now;      /* the last one; `tensor` is not kept */
    const char *at_start; /* a line that is said when there is something to do; NULL: none */
} progress;

void progress_start(progress *p, const request *r, const gq_plan *plan);
void progress_start_phase(progress *p, const request *r, const char *phase); /* a phase without a plan */
/* The phase "plan", in which a sample of the work may be measured; `measures` says so before it is. */
void progress_start_measuring(progress *p, const request *r, const char *measures);
/* A phase of a call that tells the progress of all its phases. *p: of zeros before the first one. plan: what
 * is made in it, or NULL. */
void progress_start_part(progress *p, const request *r, const gq_plan *plan, const char *phase);
gq_callbacks progress_callbacks(progress *p);
/* Clears the line and ends the phase. e: the error; NULL: it went well. */
void progress_end(progress *p, const gq_error *e);

/* Writes the line, without control sequences, in at most `columns` - 1 bytes (0: the size of `to`). part:
 * what bytes and rates are of, where the share and the time left are of more; NULL: of the same. It allocates
 * nothing, since callbacks may not end the program. */
enum { PROGRESS_LINE_BYTES = 160 };
char *progress_text(char to[PROGRESS_LINE_BYTES], const gq_progress *now, const char *part, int columns);

/* From so many seconds on a run takes long. */
enum { PROGRESS_LINES_FROM = 5 };

/* Weights per second that this run has done itself, without the work of a run that it continues; 0: not
 * known. */
double progress_weights(const gq_progress *now);

/* From here on the first SIGINT or SIGTERM is only noted; a second one ends the program. */
void interrupt_catch(void);
int interrupt_signal(void); /* the one noted, 0: none */
