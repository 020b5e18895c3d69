/* Starting threads, and nothing else: OpenMP, or plain pthreads (GQUANT_PTHREADS) so that tools that know
 * pthreads only can watch. */
#ifndef GQ_WORKERS_H
#define GQ_WORKERS_H

enum { WORKERS_MAX = 4096 };

/* Processors that this process may use. */
int workers_available(void);
/* Runs work(arg) on up to n threads at once, one of them the caller's; returns when all have. */
void workers_run(int n, void (*work)(void *arg), void *arg);

#endif
