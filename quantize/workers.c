#include "quantize/workers.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int workers_available(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
    return n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : (int)n;
}

int workers_asked(int threads) {
    int n = threads > 0 ? threads : workers_available();
    return n < WORKERS_MAX ? n : WORKERS_MAX;
}

int workers_start(pthread_t *thread, void *(*enter)(void *arg), void *arg) {
    enum { STACK = 2 << 20 }; /* whatever the limit of the caller's stack is, which may be tiny or huge */
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    int error = pthread_create(thread, &attributes, enter, arg);
    pthread_attr_destroy(&attributes);
    return error;
}

typedef struct start {
    void (*work)(void *arg);
    void *arg;
} start;

static void *enter(void *arg) {
    const start *s = arg;
    s->work(s->arg);
    return NULL;
}

workers_count workers_run(int n, void (*work)(void *arg), void *arg) {
    pthread_t *threads = calloc((size_t)n, sizeof *threads); /* beyond a small stack */
    start s = {work, arg};
    workers_count count = {.wanted = n, .ran = 1, .error = n > 1 && !threads ? ENOMEM : 0};
    while (count.ran < n && !count.error) {
        count.error = workers_start(&threads[count.ran], enter, &s);
        count.ran += !count.error;
    }
    work(arg);
    for (int i = 1; i < count.ran; i++) pthread_join(threads[i], NULL);
    free(threads);
    return count;
}

bool workers_warn(const workers_count *count, word_list *warnings, gq_error *e) {
    return !count->error ||
           words_add(warnings, e, "only %d of %d threads could be started (%s), so it takes longer",
                     count->ran, count->wanted, strerror(count->error));
}
