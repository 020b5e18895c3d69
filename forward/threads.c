#include "forward/threads.h"

#include <pthread.h>
#include <stdlib.h>

/* Holds what has started until no more is to start. */
static void *wait_for_all(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

int forward_threads(int wanted) {
    if (wanted <= 1) return 1;
    pthread_t *thread = calloc((size_t)wanted - 1, sizeof *thread);
    if (!thread) return 1;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0;
    pthread_mutex_lock(&gate);
    while (started < wanted - 1 && !pthread_create(&thread[started], NULL, wait_for_all, &gate)) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
    free(thread);
    return 1 + started;
}

typedef struct apart {
    void (*work)(void *data);
    void *data;
} apart;

static void *do_apart(void *arg) {
    const apart *a = arg;
    a->work(a->data);
    return NULL;
}

void forward_apart(void (*work)(void *data), void *data) {
    apart a = {work, data};
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_apart, &a) == 0)
        pthread_join(thread, NULL);
    else
        work(data);
}
