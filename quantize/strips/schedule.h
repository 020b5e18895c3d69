/* Work in numbered pieces, done by several threads: what running a plan, measuring for it, comparing and
 * verifying have in common. Pieces are handed out in order and those in hand are finished, so the lowest
 * piece that fails is the same for any number of threads; its error is the one reported.
 */
#pragma once

#include "base/callbacks.h"
#include "base/error.h"
#include "base/threads.h"
#include "codec/codec.h"

typedef struct schedule {
    const gq_callbacks *callbacks; /* may be NULL */
    gq_progress progress;          /* bytes_total and tensor are the user's to set */
    double work;                   /* of all pieces, in the unit of work_piece; 0: bytes stand for it */
    double worked, resumed;        /* of it */
    double started;
    double resuming; /* seconds of all threads together */
    double before;   /* seconds before the first piece, left out of rates */
    threads_pool *pool;
    size_t scratch;                    /* bytes of a thread's memory */
    struct schedule_thread *of_thread; /* one per thread of the pool */
    pthread_mutex_t lock;              /* over progress, callbacks, and whatever `fold` does */
} schedule;

typedef struct work_piece {
    uint64_t number;
    void *scratch; /* this thread's memory, aligned to 64 */
    /* The size of the piece, for progress, set by the work. weights 0: the piece was not done. */
    uint64_t bytes, weights;
    double work;     /* predicted seconds of one thread; where the schedule has none it is not used */
    bool resumed;    /* an earlier run had done it */
    double resuming; /* seconds that went into looking whether it had */
} work_piece;

typedef struct schedule_job {
    uint64_t begin, end; /* pieces */
    /* Does a piece, on several threads at once. */
    bool (*work)(void *arg, work_piece *p, gq_error *e);
    /* Called after `work` for one piece at a time, in the order in which they are finished. NULL: not called.
     */
    bool (*fold)(void *arg, const work_piece *p, gq_error *e);
    void *arg;
} schedule_job;

/* Starts a schedule. threads: 0: one per processor. scratch: bytes of it for each thread. callbacks: may be
 * NULL, and are borrowed until schedule_end. */
bool schedule_start(schedule *s, int threads, size_t scratch, const gq_callbacks *callbacks, gq_error *e);
/* May be called for a schedule of zeros. */
void schedule_end(schedule *s);
/* Does all pieces of a job. Jobs are done one after another. Fails with GQ_INTERRUPTED when the caller
 * cancels. */
bool schedule_run(schedule *s, const schedule_job *job, gq_error *e);

/* ---- what a piece takes ---- */

/* The approximate time of a weight, by which the share of a run that is done is counted. Only ratios matter, and they
 * differ little between processors: bench/results/products.md has the measurements. */

/* Seconds of encoding a weight with an imatrix in a type, and of measuring what was lost. */
double speed_encode(uint32_t type, codec_effort effort);
/* Seconds of decoding a weight of any type, of reading or writing a byte, with its checksum. */
static const double SPEED_DECODE = .7e-9, SPEED_BYTE = .4e-9;

/* Seconds of reading and decoding weights. */
static inline double speed_read(uint64_t bytes, uint64_t weights) {
    return (double)bytes * SPEED_BYTE + (double)weights * SPEED_DECODE;
}
