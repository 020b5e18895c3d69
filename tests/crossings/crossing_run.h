/* Runs of the command in folders of their own, stopped or hindered where that is asked for. */
#pragma once

#include "tests/crossings/crossing.h"

typedef struct outcome {
    int status; /* exit status, or 128 + signal */
    unsigned us;
    char text[6000]; /* standard error */
} outcome;

typedef struct setting {
    const char *isa;     /* NULL: the best */
    const char *fault;   /* as tests/faults/faults.c wants it; NULL: none */
    unsigned kill_us;    /* 0: not killed */
    unsigned stop_us;    /* of start_in: stopped (SIGSTOP) after so long */
    bool count_calls;    /* of system calls, for calls_counted */
    unsigned cut_at;     /* the power fails at this write to a journal (tests/faults/faults.c); 0: never */
    uint64_t most_bytes; /* of a file (RLIMIT_FSIZE); 0: any */
} setting;
/* Whether faults, kills at a call, power cuts and counts can be had here. */
bool has_faults(void);
/* How often the last run that counted them made calls of a kind (tests/faults/faults.c); 0: it is not known. */
unsigned calls_counted(const char *kind);
/* Whether such a run may be killed. */
bool setting_kills(const setting *s);
enum { STATUS_POWER_CUT = 99 };

/* From now on all runs are below this folder, and the log is empty. The path is borrowed. */
void run_below(const char *of_case);
/* A new folder there; its name, valid for the next 31. */
const char *new_folder(const char *name);
outcome run_in(const char *where, const setting *s, const arguments *a);

/* One that goes on while others run: stopped after s->stop_us, or where s->fault stops it. false: it has
 * ended before. */
typedef struct started {
    int pid, status; /* status: as waitpid has it, where it has ended */
    bool ended;
} started;
bool start_in(started *run, const char *where, const setting *s, const arguments *a);
/* Let it go on, or kill it, and wait for its end. */
outcome end_started(started *run, bool killed);
/* The command lines so far. */
const char *run_log(void);
