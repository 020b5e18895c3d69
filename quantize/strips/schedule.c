#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/relay.h"
#include "quantize/strips/strips.h"

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

/* ---- what a piece takes ---- */

/* Millions of weights per second of a thread, per codec_effort, at the level AVX-512 with an imatrix. */
static const double speeds[GGUF_TYPE_LIMIT][EFFORT_BEST + 1] = {
    [GGUF_Q4_0] = {1044, 596, 251}, [GGUF_Q4_1] = {1308, 450, 320},  [GGUF_Q5_0] = {992, 546, 228},
    [GGUF_Q5_1] = {1249, 447, 315}, [GGUF_Q8_0] = {1793, 615, 177},  [GGUF_Q2_K] = {610, 230, 128},
    [GGUF_Q3_K] = {722, 296, 162},  [GGUF_Q4_K] = {716, 260, 147},   [GGUF_Q5_K] = {682, 204, 134},
    [GGUF_Q6_K] = {817, 274, 151},  [GGUF_IQ4_NL] = {533, 201, 100}, [GGUF_IQ4_XS] = {535, 224, 92},
    [GGUF_IQ1_S] = {212, 92, 16.5}, [GGUF_IQ1_M] = {216, 93, 17},    [GGUF_IQ2_XXS] = {410, 247, 84},
    [GGUF_IQ2_XS] = {356, 196, 65}, [GGUF_IQ2_S] = {390, 238, 120},  [GGUF_IQ3_XXS] = {258, 130, 39},
    [GGUF_IQ3_S] = {212, 120, 57},  [GGUF_TQ1_0] = {969, 677, 387},  [GGUF_TQ2_0] = {963, 675, 386},
    [GGUF_MXFP4] = {927, 929, 923}, [GGUF_NVFP4] = {689, 374, 221},  [GGUF_Q1_0] = {2722, 2715, 2728},
    [GGUF_Q2_0] = {844, 497, 242},
};

/* Conversions between numbers, which the table does not have. */
static const double CONVERTED = 2000;

/* Measuring errors, of numbers and of decoded blocks alike: seconds. */
static const double MEASURED = .5e-9;

double speed_encode(uint32_t type, codec_effort effort) {
    double speed = type < GGUF_TYPE_LIMIT ? speeds[type][effort] : 0;
    return 1e-6 / (speed > 0 ? speed : CONVERTED) + MEASURED;
}
