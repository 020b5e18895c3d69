/* Runs of the command with tests/faults/faults.c preloaded, for tests with a folder: calls that fail, kills, what
 * was called. */
#pragma once

#include "tests/support/folder.h"

/* The exit status, or 128 + signal. variable: of faults.c, with its value; NULL: nothing fails. *says:
 * messages and output, malloc'ed; NULL: nobody asks. */
static inline int run_faulty(const char *const *argv, const char *variable, const char *value, char **says) {
    char *out, *err;
    if (variable) setenv("LD_PRELOAD", GQ_FAULTS, 1), setenv(variable, value, 1);
    int status = run_command(argv, &out, &err);
    if (variable) unsetenv("LD_PRELOAD"), unsetenv(variable);
    if (says && asprintf(says, "%s%s", err ? err : "", out ? out : "") < 0) abort();
    free(out), free(err);
    return status;
}

/* How many calls of this kind the last run made with GQ_FAULT_COUNT, path("counts"); 0: none. */
static inline long calls_counted(const char *kind) {
    char name[32];
    long n = 0, found = 0;
    FILE *f = fopen(path("counts"), "r");
    assert_non_null(f);
    while (fscanf(f, "%31s %ld", name, &n) == 2)
        if (!strcmp(name, kind)) found = n;
    fclose(f);
    return found;
}
