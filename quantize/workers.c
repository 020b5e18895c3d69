#include "quantize/workers.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <unistd.h>

int workers_available(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (int)n;
}

#ifdef GQUANT_PTHREADS

typedef struct start {
    void (*work)(void *arg);
    void *arg;
} start;

static void *enter(void *arg) {
    const start *s = arg;
    s->work(s->arg);
    return NULL;
}

void workers_run(int n, void (*work)(void *arg), void *arg) {
    pthread_t threads[WORKERS_MAX];
    start s = {work, arg};
    int started = 0;
    while (started < n - 1 && pthread_create(&threads[started], NULL, enter, &s) == 0) started++;
    work(arg);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

#else

void workers_run(int n, void (*work)(void *arg), void *arg) {
#pragma omp parallel num_threads(n)
    work(arg);
}

#endif
