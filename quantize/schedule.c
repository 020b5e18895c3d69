#include "quantize/schedule.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

double schedule_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool schedule_start(schedule *s, int threads, size_t room, const gq_callbacks *callbacks, gq_error *e) {
    *s = (schedule){.callbacks = callbacks,
                    .started = schedule_clock(),
                    .room = room,
                    .progress.size = sizeof s->progress};
    s->threads = workers_asked(threads);
    s->rooms = calloc((size_t)s->threads, sizeof *s->rooms);
    if (!s->rooms) return gq_fail_memory(e, (size_t)s->threads * sizeof *s->rooms);
    pthread_mutex_init(&s->lock, NULL);
    return true;
}

void schedule_end(schedule *s) {
    if (!s->rooms) return;
    for (int i = 0; i < s->threads; i++) free(s->rooms[i]);
    free(s->rooms);
    pthread_mutex_destroy(&s->lock);
    s->rooms = NULL;
}

/* ---- one job ---- */

typedef struct state {
    schedule *s;
    const schedule_job *job;
    _Atomic uint64_t next;
    _Atomic bool stop;
    _Atomic int workers;
    uint64_t failed; /* the lowest piece that has, UINT64_MAX: none */
    gq_error *error; /* its */
} state;

static void stop_at(state *t, uint64_t number, const gq_error *e) {
    pthread_mutex_lock(&t->s->lock);
    if (number < t->failed) {
        t->failed = number;
        if (t->error) *t->error = *e;
    }
    pthread_mutex_unlock(&t->s->lock);
    atomic_store(&t->stop, true);
}

static bool is_cancelled(const schedule *s) {
    return s->callbacks && s->callbacks->cancelled && s->callbacks->cancelled(s->callbacks->user);
}

static void tell(schedule *s, const piece *p, int workers) {
    gq_progress *to = &s->progress;
    s->resuming += p->resuming;
    if (p->weights == 0) return;
    to->bytes_done += p->bytes, to->weights_done += p->weights;
    if (p->resumed) to->bytes_resumed += p->bytes, to->weights_resumed += p->weights;
    to->seconds = schedule_clock() - s->started;
    to->seconds_resumed = s->resuming / workers;
    if (s->callbacks && s->callbacks->progress) s->callbacks->progress(s->callbacks->user, to);
}

static bool do_piece(state *t, piece *p, gq_error *e) {
    const schedule_job *job = t->job;
    if (!job->work(job->arg, p, e)) return false;
    pthread_mutex_lock(&t->s->lock);
    bool ok = !job->fold || job->fold(job->arg, p, e);
    tell(t->s, p, t->workers);
    pthread_mutex_unlock(&t->s->lock);
    return ok;
}

static bool take_room(schedule *s, int worker, gq_error *e) {
    void **room = &s->rooms[worker];
    if (!*room && posix_memalign(room, 64, s->room) != 0) *room = NULL;
    return *room || gq_fail_memory(e, s->room);
}

static void work(void *arg) {
    state *t = arg;
    schedule *s = t->s;
    gq_error e = {.status = GQ_OK};
    int worker = t->workers++;
    if (!take_room(s, worker, &e)) stop_at(t, t->job->end, &e);
    while (!atomic_load(&t->stop)) {
        if (is_cancelled(s)) {
            gq_fail(&e, "stopped on request");
            e.status = GQ_INTERRUPTED;
            stop_at(t, t->job->end, &e);
            break;
        }
        piece p = {.number = atomic_fetch_add(&t->next, 1), .room = s->rooms[worker]};
        if (p.number >= t->job->end) break;
        if (!do_piece(t, &p, &e)) stop_at(t, p.number, &e);
    }
}

bool schedule_run(schedule *s, const schedule_job *job, gq_error *e) {
    state t = {.s = s, .job = job, .next = job->begin, .failed = UINT64_MAX, .error = e};
    uint64_t pieces = job->end - job->begin; /* what more threads than these could do is nothing */
    if (pieces == 0) return true;
    workers_count count = workers_run(pieces < (uint64_t)s->threads ? (int)pieces : s->threads, work, &t);
    if (count.error && (!s->fewest.error || count.ran < s->fewest.ran)) s->fewest = count;
    return t.failed == UINT64_MAX;
}
