/* A transport on MPI. Ranks wait for each other in heads (comm.c), which are exchanges; what follows is
 * short. So an exchange does not wait actively: MPI's own waiting would take a processor from the ranks and
 * threads that are still at work. It asks, and sleeps ever longer between questions, up to a millisecond. */
#include "comm/mpi.h"

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

static bool mpi_wait(mpi_ranks *r, MPI_Request *request, const char *what, gq_error *e) {
    struct timespec sleep = {.tv_nsec = LEAST_SLEEP};
    for (int asked = 0;; asked++) {
        int done = 0;
        if (!mpi_worked(r, MPI_Test(request, &done, MPI_STATUS_IGNORE), what, e)) return false;
        if (done) return true;
        if (asked < ASKED_AT_ONCE) continue;
        nanosleep(&sleep, NULL);
        if (sleep.tv_nsec < LONGEST_SLEEP) sleep.tv_nsec += sleep.tv_nsec / 4;
    }
}

static bool mpi_exchange(void *data, const void *mine, void *all, size_t n, gq_error *e) {
    mpi_ranks *r = data;
    MPI_Request request;
    int code = MPI_Iallgather(mine, (int)n, MPI_BYTE, all, (int)n, MPI_BYTE, MPI_COMM_WORLD, &request);
    return mpi_worked(r, code, "exchange what they have done", e) &&
           mpi_wait(r, &request, "exchange what they have done", e);
}

typedef int mpi_move(void *bytes, int n, int other);

static bool mpi_in_pieces(mpi_ranks *r, mpi_move *move, int other, const void *bytes, size_t n,
                          const char *what, gq_error *e) {
    for (size_t at = 0, some; at < n; at += some) {
        some = n - at < MPI_PIECE ? n - at : MPI_PIECE;
        if (!mpi_worked(r, move((uint8_t *)bytes + at, (int)some, other), what, e)) return false;
    }
    return true;
}

static int move_to_all(void *bytes, int n, int from) {
    return MPI_Bcast(bytes, n, MPI_BYTE, from, MPI_COMM_WORLD);
}
static int move_to(void *bytes, int n, int to) { return MPI_Send(bytes, n, MPI_BYTE, to, 0, MPI_COMM_WORLD); }
static int move_from(void *bytes, int n, int from) {
    return MPI_Recv(bytes, n, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
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
static bool mpi_count_machine(gq_transport *t) {
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
    if (!mpi_count_machine(&r->transport)) return false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return true;
}

void mpi_stop(const mpi_ranks *r, int status) {
    if (r->failed) MPI_Abort(MPI_COMM_WORLD, status ? status : 1);
    MPI_Finalize();
}
