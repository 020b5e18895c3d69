/* Ranks: several processes, on one machine or many, that do one job together. Each runs the same calls with the
 * same requests, and a request names its gq_comm. The library needs four functions that move bytes between
 * ranks, a gq_transport; gquant-mpi has one on MPI (base/comm/mpi.c), and the library itself links no MPI.
 *
 *     gq_comm *comm = gq_comm_new(&transport, &e);            // on every rank
 *     gq_importance_request r = {.size = sizeof r, ..., .comm = comm};
 *     gq_importance_plan *p = gq_importance_plan_new(&r, &e); // fails on all ranks if it fails on one
 *     ...
 *     gq_comm_agree(comm, ok, &e);                            // where ranks may have gone different ways
 *     gq_comm_free(comm);
 *
 * A call that takes a gq_comm ends on all ranks with the same result. If ranks fail, all of them get the error
 * of the lowest rank that did, with its number if that is not 0, and the comm is over: every later call with it
 * fails at once. */
#pragma once

#include "base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions that move bytes between ranks. Where one fails the comm is over on this rank, and it cannot
 * notify the others: the caller has to end them. They are called by one thread at a time, in the same order
 * on all ranks. */
typedef struct gq_transport {
    size_t size;
    int rank, ranks;     /* this process's number, from 0 on, and how many there are */
    int machine_ranks;   /* ranks on this machine, this one included: they share its memory */
    int processor_ranks; /* ranks, of the machine's, that may use the same processors */
    /* Gives all ranks the n bytes of each: `all` has ranks x n bytes, in the order of ranks. */
    bool (*exchange)(void *data, const void *mine, void *all, size_t n, gq_error *e);
    /* Gives all ranks the n bytes of rank `from`. */
    bool (*broadcast)(void *data, int from, void *bytes, size_t n, gq_error *e);
    /* Moves n bytes from one rank to another. The receiver asks for as many in one call as are sent in one. */
    bool (*send)(void *data, int to, const void *bytes, size_t n, gq_error *e);
    bool (*receive)(void *data, int from, void *bytes, size_t n, gq_error *e);
    void *data;
} gq_transport;

typedef struct gq_comm gq_comm;
/* `transport` is copied; its data must live as long as the comm. */
GQ_API gq_comm *gq_comm_new(const gq_transport *transport, gq_error *e);
GQ_API void gq_comm_free(gq_comm *comm);
/* For NULL, a process alone, these are 0 and 1. */
GQ_API int gq_comm_rank(const gq_comm *comm);
GQ_API int gq_comm_ranks(const gq_comm *comm);
/* Returns true on all ranks if ok is true on all of them. Else all return false with the error of the lowest
 * rank that failed, which is *e on that rank. A rank that fails outside of a call with the comm has to call
 * this before it ends, or the others wait for it. */
GQ_API bool gq_comm_agree(gq_comm *comm, bool ok, gq_error *e);
/* Bytes that this rank has handed to the transport: what it sent, and what it broadcast or exchanged, once. */
GQ_API uint64_t gq_comm_bytes_sent(const gq_comm *comm);

#ifdef __cplusplus
}
#endif
