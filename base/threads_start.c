#include "base/threads.h"

int threads_start(pthread_t *thread, void *(*enter)(void *arg), void *arg) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREADS_STACK);
    int error = pthread_create(thread, &attributes, enter, arg);
    pthread_attr_destroy(&attributes);
    return error;
}
