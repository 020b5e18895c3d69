/* Loops on several threads. No other file starts a thread.
 *
 *     threads_pool *p = threads_pool_new(threads_asked(0));
 *     threads_for(p, rows, THREADS_EVEN, scale_row, &task);
 *     threads_pool_free(p);
 *
 * A pool lives as long as one call of the library and is used by the thread that made it, which does a share
 * of every loop itself. So no thread outlives a call: a program may fork or unload the library afterwards. A
 * child that is forked between two loops of a call has none of the pool's threads; its loops are done by the
 * caller alone. A child that is forked within a loop must not return to it: the threads that have the other
 * indices in hand, and that the loop's end waits for, are not there.
 *
 * Threads are started when a loop first has work for them. Where the system starts no more, the others do the
 * work, and threads_pool_count reports how many there are. Between two loops a thread waits actively for some
 * microseconds and then sleeps. A loop ends when its work is done: nobody waits for a thread that is still
 * asleep.
 *
 * A function that takes a pool also takes NULL: the caller's thread alone. Loops cannot be nested: what a
 * loop calls must not use the same pool. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { THREADS_MAX = 4096 };
enum { THREADS_STACK = 2 << 20 }; /* bytes, whatever the limit of the caller's stack is, tiny or huge */

/* Processors that this process may use. */
int threads_available(void);
/* Returns the number of threads to use: those asked for, at most THREADS_MAX; 0: one per processor. */
int threads_asked(int threads);
/* pthread_create with a stack of our own size, for the few threads that do something beside a call. */
static inline int threads_start(pthread_t *thread, void *(*enter)(void *arg), void *arg) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREADS_STACK);
    int error = pthread_create(thread, &attributes, enter, arg);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- pools ---- */

typedef struct threads_pool threads_pool;
/* For at most so many threads, the caller's among them. NULL: no memory. */
threads_pool *threads_pool_new(int most);
/* Ends its threads. May be NULL. */
void threads_pool_free(threads_pool *p);
/* Numbers of threads in loops are below this; 1 for NULL. */
int threads_pool_most(const threads_pool *p);

typedef struct threads_count {
    int wanted, ran; /* the most that a loop had work for, and the threads that there were */
    int error;       /* errno of the thread that could not be started; 0: all were */
} threads_count;
threads_count threads_pool_count(const threads_pool *p);

/* ---- loops ---- */

/* Calls body(data, i, thread) for all i below n. A thread takes `at_once` successive indices at a time. */
typedef void threads_body(void *data, size_t i, int thread);
enum { THREADS_EVEN = 0 }; /* a few shares for each thread: for many indices of about the same work */
void threads_for(threads_pool *p, size_t n, size_t at_once, threads_body *body, void *data);

/* Work that can fail. Indices are handed out in order, and those in hand are finished. So the lowest index
 * that fails is the same for any number of threads. */
typedef struct threads_job {
    uint64_t begin, end;
    bool (*work)(void *data, uint64_t i, int thread);
    bool (*is_cancelled)(void *data); /* asked before each index, by the thread that takes it; NULL: never */
    void *data;
} threads_job;
typedef enum threads_result { THREADS_DONE, THREADS_FAILED, THREADS_CANCELLED } threads_result;
typedef struct threads_outcome {
    threads_result result; /* THREADS_FAILED even if the job was also canceled */
    uint64_t index;        /* the lowest that failed */
    /* the thread that failed; it does nothing more after a failure, so an error that it has put aside for
     * itself is still there */
    int thread;
} threads_outcome;
threads_outcome threads_try(threads_pool *p, const threads_job *job);

/* Calls work(data, thread) on the caller's thread, and once on each other thread that comes before the
 * caller's own call has returned; what is to be done is theirs to share out. n is a hint, of how many threads
 * there is work for: fewer come where some are late or cannot be started, and more where earlier loops have
 * left them awake. Thread numbers are below threads_pool_most. */
typedef void threads_work(void *data, int thread);
void threads_together(threads_pool *p, size_t n, threads_work *work, void *data);
