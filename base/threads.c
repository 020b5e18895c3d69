/* Threads meet at a gate. It is one number, so that it changes in one step:
 *
 *     round << 32 | OVER | OPEN | AWAITED | threads that are inside
 *
 * The caller opens it for a new round. A thread enters an open gate, once per round, by adding itself to those
 * inside; it leaves by taking itself off. The caller closes the gate when it finds no more work, and then waits
 * until nobody is inside. What is to be done in a round is written while the gate is closed and nobody is
 * inside.
 *
 * Threads that have waited actively in vain sleep on `wake`, the caller on `done`. The order of what follows is
 * why no call to wake is lost: a thread counts itself as asleep, then looks at the gate; the caller opens the
 * gate, then looks whether somebody is asleep. Likewise AWAITED is set before the caller looks who is inside. */
#include "base/threads.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* The most that is spent on waiting actively: 2,000 pauses are 20 microseconds on older processors and 80 on
 * newer ones. Loops of a layer follow each other within that, and waking a thread takes 5 to 50. */
enum { PAUSES = 2000 };

#define INSIDE ((uint64_t)0xffff)
#define AWAITED ((uint64_t)1 << 16)
#define OPEN ((uint64_t)1 << 17)
#define OVER ((uint64_t)1 << 18)
enum { ROUND_SHIFT = 32 }; /* bits below its number */
_Static_assert(THREADS_MAX <= 0xffff, "all threads may be inside");

struct threads_pool {
    _Atomic uint64_t gate;
    _Atomic int asleep;
    _Atomic int numbered; /* threads that have taken a number, 1 to `started` */
    int most, started;    /* started: without the caller's */
    int wanted, error;    /* of threads_count */
    int pauses;
    pid_t owner;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    threads_work *work; /* of this round */
    void *data;
    pthread_t threads[]; /* of `most` - 1 the started ones */
};

int threads_available(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* more processors than a cpu_set_t holds */
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;
}

int threads_asked(int threads) {
    int n = threads > 0 ? threads : threads_available();
    return n < THREADS_MAX ? n : THREADS_MAX;
}

/* ---- a thread of a pool ---- */

static inline void pause_shortly(void) {
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb");
#endif
}

static bool is_called(uint64_t gate, uint32_t round_before) {
    return gate & OVER || (gate & OPEN && (uint32_t)(gate >> ROUND_SHIFT) != round_before);
}

static uint64_t wait_for_round(threads_pool *p, uint32_t round_before) {
    uint64_t gate = 0;
    for (int i = 0; i <= p->pauses; i++) {
        gate = atomic_load(&p->gate);
        if (is_called(gate, round_before)) return gate;
        pause_shortly();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!is_called(gate = atomic_load(&p->gate), round_before)) pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
    return gate;
}

static void leave_gate(threads_pool *p) {
    uint64_t before = atomic_fetch_sub(&p->gate, 1);
    if (!(before & AWAITED) || (before & INSIDE) > 1) return;
    pthread_mutex_lock(&p->lock);
    pthread_cond_signal(&p->done);
    pthread_mutex_unlock(&p->lock);
}

static void *work_in_rounds(void *arg) {
    threads_pool *p = arg;
    const int number = 1 + atomic_fetch_add(&p->numbered, 1);
    uint32_t mine = 0;
    for (;;) {
        uint64_t gate = wait_for_round(p, mine);
        if (gate & OVER) return NULL;
        if (!atomic_compare_exchange_strong(&p->gate, &gate, gate + 1)) continue;
        mine = (uint32_t)(gate >> ROUND_SHIFT);
        p->work(p->data, number);
        leave_gate(p);
    }
}

/* ---- pools ---- */

threads_pool *threads_pool_new(int most) {
    if (most < 1) most = 1;
    if (most > THREADS_MAX) most = THREADS_MAX;
    threads_pool *p = calloc(1, sizeof *p + (size_t)(most - 1) * sizeof *p->threads);
    if (!p) return NULL;
    p->most = most, p->owner = getpid();
    /* Threads that share a processor would only keep each other waiting. */
    p->pauses = most <= threads_available() ? PAUSES : 0;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL), pthread_cond_init(&p->done, NULL);
    return p;
}

/* A child has memory of the threads, but not the threads. */
static bool is_forked(const threads_pool *p) { return p->owner != getpid(); }

/* Makes the workers leave, and ends them. */
static void end_workers(threads_pool *p) {
    pthread_mutex_lock(&p->lock);
    atomic_fetch_or(&p->gate, OVER);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->started; i++) pthread_join(p->threads[i], NULL);
}

void threads_pool_free(threads_pool *p) {
    if (!p) return;
    if (!is_forked(p)) {
        end_workers(p);
        pthread_mutex_destroy(&p->lock);
        pthread_cond_destroy(&p->wake), pthread_cond_destroy(&p->done);
    }
    free(p);
}

int threads_pool_most(const threads_pool *p) { return p ? p->most : 1; }

threads_count threads_pool_count(const threads_pool *p) {
    return p ? (threads_count){p->wanted, 1 + p->started, p->error} : (threads_count){1, 1, 0};
}

/* Sees to n threads, or fewer after a failure: then no more are tried. */
static void start_workers(threads_pool *p, int n) {
    if (n > p->wanted) p->wanted = n;
    while (p->started < n - 1 && !p->error) {
        p->error = threads_start(&p->threads[p->started], work_in_rounds, p);
        p->started += !p->error;
    }
}

/* ---- a round ---- */

static void open_gate(threads_pool *p, int n) {
    uint64_t number = (atomic_load(&p->gate) >> ROUND_SHIFT) + 1;
    atomic_store(&p->gate, number << ROUND_SHIFT | OPEN);
    if (atomic_load(&p->asleep) == 0) return;
    pthread_mutex_lock(&p->lock);
    if (n - 1 >= p->started)
        pthread_cond_broadcast(&p->wake);
    else
        for (int i = 1; i < n; i++) pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static void close_gate(threads_pool *p) {
    uint64_t gate = atomic_fetch_and(&p->gate, ~OPEN);
    for (int i = 0; i < p->pauses && gate & INSIDE; i++) {
        pause_shortly();
        gate = atomic_load(&p->gate);
    }
    if (!(gate & INSIDE)) return;
    pthread_mutex_lock(&p->lock);
    atomic_fetch_or(&p->gate, AWAITED);
    while (atomic_load(&p->gate) & INSIDE) pthread_cond_wait(&p->done, &p->lock);
    atomic_fetch_and(&p->gate, ~AWAITED);
    pthread_mutex_unlock(&p->lock);
}

void threads_together(threads_pool *p, size_t n, threads_work *work, void *data) {
    int most = threads_pool_most(p), threads = n < (size_t)most ? (int)n : most;
    if (threads > 1 && !is_forked(p)) {
        start_workers(p, threads);
        if (p->started) {
            p->work = work, p->data = data;
            open_gate(p, threads);
            work(data, 0);
            close_gate(p);
            return;
        }
    }
    work(data, 0);
}

/* ---- loops ---- */

typedef struct threads_loop {
    size_t n, at_once;
    threads_body *body;
    void *data;
    _Alignas(64) _Atomic size_t next; /* all threads write it, and only read the others */
} threads_loop;

static void do_indices(void *arg, int thread) {
    threads_loop *l = arg;
    const size_t n = l->n, at_once = l->at_once;
    for (size_t begin; (begin = atomic_fetch_add_explicit(&l->next, at_once, memory_order_relaxed)) < n;)
        for (size_t i = begin; i < n && i - begin < at_once; i++) l->body(l->data, i, thread);
}

void threads_for(threads_pool *p, size_t n, size_t at_once, threads_body *body, void *data) {
    enum { SHARES = 4 }; /* per thread: so that none waits long for the last one */
    size_t most = (size_t)threads_pool_most(p);
    if (at_once == THREADS_EVEN) at_once = 1 + n / (most * SHARES);
    threads_loop l = {.n = n, .at_once = at_once, .body = body, .data = data};
    if (n) threads_together(p, (n - 1) / at_once + 1, do_indices, &l);
}

typedef struct threads_attempt {
    const threads_job *job;
    _Atomic uint64_t next;
    _Atomic bool stops;
    pthread_mutex_t lock; /* over the outcome */
    threads_outcome outcome;
} threads_attempt;

static void stop_at(threads_attempt *a, threads_outcome o) {
    pthread_mutex_lock(&a->lock);
    const threads_outcome *so_far = &a->outcome;
    if (so_far->result != THREADS_FAILED || (o.result == THREADS_FAILED && o.index < so_far->index))
        a->outcome = o;
    pthread_mutex_unlock(&a->lock);
    atomic_store(&a->stops, true);
}

static void try_indices(void *arg, int thread) {
    threads_attempt *a = arg;
    const threads_job *job = a->job;
    while (!atomic_load(&a->stops)) {
        if (job->is_cancelled && job->is_cancelled(job->data)) {
            stop_at(a, (threads_outcome){THREADS_CANCELLED, job->end, thread});
            return;
        }
        uint64_t i = atomic_fetch_add(&a->next, 1);
        if (i >= job->end) return;
        if (!job->work(job->data, i, thread)) stop_at(a, (threads_outcome){THREADS_FAILED, i, thread});
    }
}

threads_outcome threads_try(threads_pool *p, const threads_job *job) {
    threads_attempt a = {.job = job, .next = job->begin, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (job->begin < job->end) threads_together(p, job->end - job->begin, try_indices, &a);
    pthread_mutex_destroy(&a.lock);
    return a.outcome;
}
