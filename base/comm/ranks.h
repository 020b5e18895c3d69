/* Collectives of ranks, for the library's own files. Each function here but those of the first group is a
 * collective: all ranks call it, in the same order. `c` NULL is a process alone, for which all of them do
 * nothing.
 *
 * A collective begins with a header, a few bytes that all ranks exchange. A rank that has failed meanwhile is
 * not there: it went back to the outermost function of the public call, which calls gq_comm_agree. That is a
 * header, too, and says that the rank failed. So all ranks learn of it at their next collective, whichever that
 * is, and no rank waits for one that is gone. The rules for callers:
 *
 * 1. Every public call that takes a comm ends with gq_comm_agree on all its ways.
 * 2. What follows a local failure is only the way back to there.
 * 3. Which collectives follow must be the same on all ranks as long as none fails. Headers say which collective
 *    it is; where ranks differ, all of them fail. */
#pragma once

#include "base/comm/comm.h"

/* ---- of this rank, and of shares ---- */

static inline bool comm_is_first(const gq_comm *c) { return gq_comm_rank(c) == 0; }
/* A rank's share of n things begins with this one and ends before that of the next rank. Where there are
 * fewer things than ranks, the last ranks have none. */
uint64_t comm_share(const gq_comm *c, uint64_t n, int rank);
/* The same where things are shared out again and again: with each `rotation` the next ranks get one more than
 * others, so that after as many rotations as there are ranks all had the same. */
uint64_t comm_share_rotated(const gq_comm *c, uint64_t n, uint64_t rotation, int rank);
/* Returns how many ranks share this machine's memory, this one included. */
int comm_machine_ranks(const gq_comm *c);
/* Returns the memory that this rank may take of what its machine's ranks may take together. */
uint64_t comm_memory(const gq_comm *c, uint64_t machine_bytes);
/* Returns the threads of this rank: those asked for, or (0) its share of the processors. */
int comm_threads(const gq_comm *c, int asked);

/* ---- collectives ---- */

enum { COMM_HEADER_BYTES = 24 }; /* sent by each rank for each collective, whatever it moves */

/* Waits until all ranks are here. */
bool comm_meet(gq_comm *c, gq_error *e);
/* Gives all ranks the n bytes of rank 0. */
bool comm_broadcast(gq_comm *c, void *bytes, size_t n, gq_error *e);
/* Gives all ranks the n bytes of rank `from`. */
bool comm_broadcast_from(gq_comm *c, int from, void *bytes, size_t n, gq_error *e);
/* Bytes of rank `from` in pieces, each of which all ranks use before the next one comes; one collective. */
typedef struct comm_pieces {
    size_t n;
    uint64_t (*bytes)(void *data, size_t i); /* of piece i */
    /* returns the place of piece i on its rank, and where others get it */
    void *(*at)(void *data, size_t i);
    /* If a piece cannot be used the others still arrive, unused, and the collective fails in the end. */
    bool (*use)(void *data, size_t i, gq_error *e);
    void *data;
} comm_pieces;
bool comm_broadcast_pieces(gq_comm *c, int from, const comm_pieces *p, gq_error *e);
/* Gives all ranks each rank's bytes of an array: those from begins[r] up to begins[r + 1] are rank r's. */
bool comm_gather(gq_comm *c, void *array, const uint64_t *begins, gq_error *e);
/* Gives all ranks the values of each: `all` has ranks x n of them. */
bool comm_exchange(gq_comm *c, const uint64_t *mine, uint64_t *all, size_t n, gq_error *e);
/* Replaces each of n values by the largest of all ranks. */
bool comm_most(gq_comm *c, uint64_t *values, size_t n, gq_error *e);
/* Replaces a value by the smallest of all ranks. */
bool comm_least(gq_comm *c, uint64_t *value, gq_error *e);

/* Data that ranks pass to lower ranks until rank 0 has all of it: rank r takes what rank r + 1 has, then what
 * ranks r + 2 and r + 3 have, and so on, always that of neighbours behind its own. */
typedef struct comm_parcel {
    /* Packs what this rank has: *bytes is malloc'ed. */
    bool (*pack)(void *data, uint8_t **bytes, uint64_t *n, gq_error *e);
    /* Adds what was packed by the ranks behind those whose this is. The bytes are not from a file, but
     * another build may have packed them. */
    bool (*add)(void *data, const uint8_t *bytes, uint64_t n, gq_error *e);
    void *data;
} comm_parcel;
bool comm_collect(gq_comm *c, const comm_parcel *parcel, gq_error *e);

/* ---- for tests ---- */

/* Makes a rank's `number`-th collective (from 0) fail before it begins or after it has ended. */
void comm_fail_at(gq_comm *c, uint64_t number, bool after);
uint64_t comm_collectives(const gq_comm *c); /* so far */
