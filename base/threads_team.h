/* The threads of a pool, by one of two files: threads_openmp.c, or threads_pthread.c where the compiler has
 * no OpenMP or -DGQUANT_OPENMP=OFF is given. For threads.c and these two files alone. */
#pragma once

#include "base/threads.h"

typedef struct threads_team threads_team;

/* Starts n threads, or fewer where the system has no more: `started` of them, and the errno in `error`. Each
 * calls enter(arg, number) once, with numbers from 1. NULL: none was started. */
threads_team *threads_team_start(int n, threads_work *enter, void *arg, int *started, int *error);
/* Waits until all have returned from `enter`, and ends them. */
void threads_team_end(threads_team *t);
