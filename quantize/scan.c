#include "quantize/scan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct job {
    scan *scan;
    uint64_t elements, pieces;
    scan_visit *visit;
    void *arg;
    atomic_uint_fast64_t next;
    atomic_int rooms_taken;
    atomic_bool stop;
    pthread_mutex_t lock;
    uint64_t failed; /* piece, UINT64_MAX: none */
    gq_error *error;
} job;

double scan_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool scan_start(scan *s, int threads, const gq_callbacks *callbacks, uint64_t bytes_total, gq_error *e) {
    *s = (scan){.kernels = kernels_select(), .callbacks = callbacks, .progress.bytes_total = bytes_total};
    if (!s->kernels)
        return gq_fail_usage(e, "GQUANT_ISA names a level that is unknown or that this processor lacks");
    s->threads = threads > 0 ? threads : workers_available();
    if (s->threads > WORKERS_MAX) s->threads = WORKERS_MAX;
    s->started = scan_seconds();
    s->rooms = calloc((size_t)s->threads, sizeof *s->rooms);
    return s->rooms || gq_fail_memory(e, (size_t)s->threads * sizeof *s->rooms);
}

void scan_end(scan *s) {
    for (int i = 0; s->rooms && i < s->threads; i++) free(s->rooms[i].stored[0]);
    free(s->rooms);
}

uint64_t scan_pieces(uint64_t elements) { return elements / SCAN_PIECE + (elements % SCAN_PIECE > 0); }

bool scan_read(const gguf_model *m, const gguf_tensor *t, uint64_t first, uint64_t n, uint8_t *to,
               gq_error *e) {
    return gq_file_read(&m->shards[t->shard].file, t->offset + gguf_type_bytes(t->type, first), to,
                        gguf_type_bytes(t->type, n), e);
}

static bool room_new(scan_room *room, gq_error *e) {
    enum { STORED = 8 * SCAN_STRIP, DECODED = 4 * SCAN_STRIP };
    void *memory;
    if (posix_memalign(&memory, 64, 2 * (STORED + DECODED)) != 0)
        return gq_fail_memory(e, 2 * (STORED + DECODED));
    room->stored[0] = memory;
    room->stored[1] = room->stored[0] + STORED;
    room->decoded[0] = (float *)(void *)(room->stored[1] + STORED);
    room->decoded[1] = room->decoded[0] + SCAN_STRIP;
    return true;
}

static void fail_at(job *j, uint64_t piece, const gq_error *e) {
    pthread_mutex_lock(&j->lock);
    if (piece < j->failed) {
        j->failed = piece;
        if (j->error) *j->error = *e;
    }
    pthread_mutex_unlock(&j->lock);
    atomic_store(&j->stop, true);
}

static void tell(job *j, const scan_work *done) {
    scan *s = j->scan;
    pthread_mutex_lock(&j->lock);
    s->progress.bytes_done += done->bytes, s->progress.weights_done += done->weights;
    s->progress.seconds = scan_seconds() - s->started;
    if (s->callbacks && s->callbacks->progress) s->callbacks->progress(s->callbacks->user, &s->progress);
    pthread_mutex_unlock(&j->lock);
}

static bool cancelled(const scan *s) {
    return s->callbacks && s->callbacks->cancelled && s->callbacks->cancelled(s->callbacks->user);
}

static void work(void *arg) {
    job *j = arg;
    gq_error e = {.status = GQ_OK};
    scan_room *room = &j->scan->rooms[atomic_fetch_add(&j->rooms_taken, 1)];
    if (!room->stored[0] && !room_new(room, &e)) {
        fail_at(j, j->pieces, &e);
        return;
    }
    while (!atomic_load(&j->stop)) {
        uint64_t piece = atomic_fetch_add(&j->next, 1), first = piece * SCAN_PIECE;
        if (piece >= j->pieces) break;
        if (cancelled(j->scan)) {
            gq_fail(&e, "stopped on request");
            e.status = GQ_INTERRUPTED;
            fail_at(j, j->pieces, &e);
            break;
        }
        uint64_t n = j->elements - first < SCAN_PIECE ? j->elements - first : SCAN_PIECE;
        scan_work done = {0};
        if (j->visit(j->arg, piece, first, n, room, &done, &e))
            tell(j, &done);
        else
            fail_at(j, piece, &e);
    }
}

bool scan_tensor(scan *s, uint64_t elements, scan_visit *visit, void *arg, gq_error *e) {
    job j = {.scan = s,
             .elements = elements,
             .pieces = scan_pieces(elements),
             .visit = visit,
             .arg = arg,
             .lock = PTHREAD_MUTEX_INITIALIZER,
             .failed = UINT64_MAX,
             .error = e};
    uint64_t threads = j.pieces < (uint64_t)s->threads ? j.pieces : (uint64_t)s->threads;
    if (threads > 0) {
        workers_count count = workers_run((int)threads, work, &j);
        if (count.error && (!s->fewest.error || count.ran < s->fewest.ran)) s->fewest = count;
    }
    pthread_mutex_destroy(&j.lock);
    return j.failed == UINT64_MAX;
}
