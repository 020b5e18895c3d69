#include "quantize/strips/schedule.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/relay.h"

/* A thread's own state. */
typedef struct schedule_thread {
    void *scratch;  /* NULL until it is needed */
    gq_error error; /* of the piece that failed */
} schedule_thread;

bool schedule_start(schedule *s, int threads, size_t scratch, const gq_callbacks *callbacks, gq_error *e) {
    *s = (schedule){.callbacks = callbacks,
                    .started = clock_seconds(),
                    .scratch = scratch,
                    .progress.size = sizeof s->progress};
    int n = threads_asked(threads);
    s->pool = threads_pool_new(n);
    s->of_thread = s->pool ? calloc((size_t)n, sizeof *s->of_thread) : NULL;
    if (!s->of_thread) {
        threads_pool_free(s->pool);
        s->pool = NULL;
        return gq_fail_memory(e, (size_t)n * sizeof *s->of_thread);
    }
    pthread_mutex_init(&s->lock, NULL);
    return true;
}

void schedule_end(schedule *s) {
    if (!s->pool) return;
    for (int i = 0; i < threads_pool_most(s->pool); i++) free(s->of_thread[i].scratch);
    threads_pool_free(s->pool);
    free(s->of_thread);
    pthread_mutex_destroy(&s->lock);
    s->pool = NULL, s->of_thread = NULL;
}

/* ---- one job ---- */

typedef struct schedule_state {
    schedule *s;
    const schedule_job *job;
} schedule_state;

static bool schedule_is_cancelled(void *data) {
    const schedule *s = ((const schedule_state *)data)->s;
    return s->callbacks && s->callbacks->cancelled && s->callbacks->cancelled(s->callbacks->user);
}

static void schedule_report(schedule *s, const work_piece *p) {
    gq_progress *to = &s->progress;
    s->resuming += p->resuming;
    if (p->weights == 0) return;
    to->bytes_done += p->bytes, to->weights_done += p->weights;
    if (p->resumed) to->bytes_resumed += p->bytes, to->weights_resumed += p->weights;
    to->seconds = clock_seconds() - s->started;
    to->seconds_resumed = s->before + s->resuming / threads_pool_count(s->pool).ran;
    double work = s->work > 0 ? p->work : (double)p->bytes;
    s->worked += work, s->resumed += p->resumed ? work : 0;
    share_set(to, s->worked, s->resumed, s->work > 0 ? s->work : (double)to->bytes_total);
    if (s->callbacks && s->callbacks->progress) s->callbacks->progress(s->callbacks->user, to);
}

static bool do_piece(void *data, uint64_t number, int thread) {
    schedule_state *t = data;
    schedule *s = t->s;
    const schedule_job *job = t->job;
    schedule_thread *own = &s->of_thread[thread];
    gq_error *e = &own->error;
    if (!own->scratch) own->scratch = memory_lines(1, s->scratch, e);
    if (!own->scratch) return false;
    work_piece p = {.number = number, .scratch = own->scratch};
    if (!job->work(job->arg, &p, e)) return false;
    pthread_mutex_lock(&s->lock);
    bool ok = !job->fold || job->fold(job->arg, &p, e);
    schedule_report(s, &p);
    pthread_mutex_unlock(&s->lock);
    return ok;
}

bool schedule_run(schedule *s, const schedule_job *job, gq_error *e) {
    schedule_state t = {s, job};
    threads_outcome o = threads_try(s->pool, &(threads_job){.begin = job->begin,
                                                            .end = job->end,
                                                            .work = do_piece,
                                                            .is_cancelled = schedule_is_cancelled,
                                                            .data = &t});
    if (o.result == THREADS_DONE) return true;
    if (o.result == THREADS_FAILED) {
        if (e) *e = s->of_thread[o.thread].error;
        return false;
    }
    return gq_fail_as(e, GQ_INTERRUPTED, "stopped on request");
}
