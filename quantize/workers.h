/* Starting threads, and nothing else. */
#ifndef GQ_WORKERS_H
#define GQ_WORKERS_H

#include <pthread.h>

#include "base/words.h"

enum { WORKERS_MAX = 4096 };

typedef struct workers_count {
    int wanted, ran;
    int error; /* errno of the thread that could not be started; 0: all ran */
} workers_count;

/* Processors that this process may use. */
int workers_available(void);
/* As many threads as are asked for, but at most WORKERS_MAX; 0: one per processor. */
int workers_asked(int threads);
/* pthread_create with a stack of our own size. */
int workers_start(pthread_t *thread, void *(*enter)(void *arg), void *arg);
/* Runs work(arg) on up to n threads at once, one of them the caller's; returns when all have. Where the
 * system starts no more threads those that are there do the work. */
workers_count workers_run(int n, void (*work)(void *arg), void *arg);
/* Where threads were missing, a warning. */
bool workers_warn(const workers_count *count, word_list *warnings, gq_error *e);

#endif
