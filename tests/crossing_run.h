/* Runs of the command in folders of their own, stopped or hindered where that is asked for. */
#ifndef GQ_TEST_CROSSING_RUN_H
#define GQ_TEST_CROSSING_RUN_H

#include "tests/crossing.h"

typedef struct outcome {
    int status; /* exit status, or 128 + signal */
    unsigned us;
    char text[6000]; /* standard error */
} outcome;

typedef struct setting {
    const char *isa;   /* NULL: the best */
    const char *fault; /* as tests/faults.c wants it; NULL: none */
    unsigned kill_us;  /* 0: not killed */
} setting;

/* From now on all runs are below this folder, and the log is empty. The path is borrowed. */
void run_below(const char *of_case);
/* A new folder there; its name, valid for the next 31. */
const char *new_folder(const char *name);
outcome run_in(const char *where, const setting *s, const arguments *a);
/* The command lines so far. */
const char *run_log(void);

#endif
