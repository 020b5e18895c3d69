/* Ranks as threads of one process, with a transport that copies memory. */
#pragma once

#include "base/comm/ranks.h"

/* A rank's part of a test. Assertions of cmocka are for the main thread: it returns what is to be compared.
 */
typedef void rank_work(void *data, gq_comm *comm);
enum { RANKS_MOST = 16, RANKS_EACH = -2 };
/* Does the work on n ranks; on rank `faulty` (-1: none; RANKS_EACH: all) collective `number` fails, before or
 * after it is done. Returns how many collectives rank 0 has done. */
uint64_t ranks_run(int n, rank_work *work, void *data, int faulty, uint64_t number, bool after);
