/* A transport on MPI. MPI's own waiting takes a processor from the ranks and threads that are still at work;
 * where ranks outnumber processors, each then waits for others that cannot run (MPICH, seven ranks on two
 * processors: 39 s in place of 2.6). So calls are begun and asked whether they are done. Ranks wait for each
 * other's work in headers (ranks.c), which are exchanges: between questions they sleep, ever longer. The bytes
 * that follow are on their way, and sleeping would slow them down: ranks do it where they are too many. */
#include "base/comm/mpi.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MPI_PIECE = 1 << 30,    /* bytes of a message: counts are ints */
    ASKED_AT_ONCE = 64,     /* questions before the first sleep */
    LEAST_SLEEP = 10000,    /* ns */
    LONGEST_SLEEP = 1000000 /* ns */
};

static bool mpi_worked(mpi_ranks *r, int code, const char *what, gq_error *e) {
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return true;
    r->failed = true;
    MPI_Error_string(code, text, &length);
    return gq_fail(e, "ranks cannot %s: %s", what, text);
}

typedef enum mpi_pause { FOR_OTHERS_WORK, FOR_BYTES } mpi_pause;

/* Waits for what a call of MPI has begun. code: its result. */
static bool mpi_wait(mpi_ranks *r, int code, MPI_Request *request, mpi_pause pause, const char *what,
                     gq_error *e) {
    struct timespec sleep = {.tv_nsec = LEAST_SLEEP};
    if (!mpi_worked(r, code, what, e)) return false;
    for (int asked = 0;; asked++) {
        int done = 0;
        if (!mpi_worked(r, MPI_Test(request, &done, MPI_STATUS_IGNORE), what, e)) return false;
        if (done) return true;
        if (asked < ASKED_AT_ONCE || (pause == FOR_BYTES && !r->crowded)) continue;
        nanosleep(&sleep, NULL);
        if (pause == FOR_OTHERS_WORK && sleep.tv_nsec < LONGEST_SLEEP) sleep.tv_nsec += sleep.tv_nsec / 4;
    }
}

static bool mpi_exchange(void *data, const void *mine, void *all, size_t n, gq_error *e) {
    MPI_Request request;
    int code = MPI_Iallgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, MPI_COMM_WORLD, &request);
    return mpi_wait(data, code, &request, FOR_OTHERS_WORK, "exchange what they have done", e);
}

typedef int mpi_move(void *bytes, int n, int other, MPI_Request *request);

static bool mpi_in_pieces(mpi_ranks *r, mpi_move *move, int other, const void *bytes, size_t n,
                          const char *what, gq_error *e) {
    for (size_t at = 0, some; at < n; at += some) {
        MPI_Request request;
        some = n - at < MPI_PIECE ? n - at : MPI_PIECE;
        int code = move((uint8_t *)bytes + at, (int)some, other, &request);
        if (!mpi_wait(r, code, &request, FOR_BYTES, what, e)) return false;
    }
    return true;
}

static int move_to_all(void *bytes, int n, int from, MPI_Request *request) {
    return MPI_Ibcast(bytes, n, MPI_BYTE, from, MPI_COMM_WORLD, request);
}
static int move_to(void *bytes, int n, int to, MPI_Request *request) {
    return MPI_Isend(bytes, n, MPI_BYTE, to, 0, MPI_COMM_WORLD, request);
}
static int move_from(void *bytes, int n, int from, MPI_Request *request) {
    return MPI_Irecv(bytes, n, MPI_BYTE, from, 0, MPI_COMM_WORLD, request);
}

static bool mpi_broadcast(void *data, int from, void *bytes, size_t n, gq_error *e) {
    return mpi_in_pieces(data, move_to_all, from, bytes, n, "broadcast", e);
}
static bool mpi_send(void *data, int to, const void *bytes, size_t n, gq_error *e) {
    return mpi_in_pieces(data, move_to, to, bytes, n, "send", e);
}
static bool mpi_receive(void *data, int from, void *bytes, size_t n, gq_error *e) {
    return mpi_in_pieces(data, move_from, from, bytes, n, "receive", e);
}

/* Counts the ranks of this machine, and those of them that have the same processors as this one. */
static bool mpi_count_machine(mpi_ranks *r) {
    gq_transport *t = &r->transport;
    MPI_Comm machine;
    cpu_set_t own;
    int ranks = 1;
    memset(&own, 0, sizeof own);
    if (sched_getaffinity(0, sizeof own, &own) != 0) memset(&own, 0, sizeof own);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &machine))
        return false;
    MPI_Comm_size(machine, &ranks);
    cpu_set_t *all = calloc((size_t)ranks, sizeof *all);
    bool ok =
        all && MPI_Allgather(&own, sizeof own, MPI_BYTE, all, sizeof own, MPI_BYTE, machine) == MPI_SUCCESS;
    t->machine_ranks = ranks, t->processor_ranks = 0;
    for (int i = 0; ok && i < ranks; i++) t->processor_ranks += memcmp(&all[i], &own, sizeof own) == 0;
    r->crowded = t->processor_ranks > CPU_COUNT(&own);
    free(all);
    MPI_Comm_free(&machine);
    return ok;
}

bool mpi_start(mpi_ranks *r, int *argc, char ***argv) {
    int given;
    *r = (mpi_ranks){.transport = {.size = sizeof r->transport,
                                   .exchange = mpi_exchange,
                                   .broadcast = mpi_broadcast,
                                   .send = mpi_send,
                                   .receive = mpi_receive,
                                   .data = r}};
    if (MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS) return false;
    MPI_Comm_rank(MPI_COMM_WORLD, &r->transport.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &r->transport.ranks);
    if (!mpi_count_machine(r)) return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return true;
}

void mpi_stop(const mpi_ranks *r, int status) {
    if (r->failed) MPI_Abort(MPI_COMM_WORLD, status ? status : 1);
    MPI_Finalize();
}
