/* The memory that running a model may take, and what the process has taken already. All in bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/comm/comm.h"

/* Bytes of memory that the machine has. */
uint64_t memory_budget_machine(void);
/* Returns the memory that was asked for, or for 0 a quarter of the machine's. */
uint64_t memory_budget_of(uint64_t asked);
/* Returns the bytes that the process has already, and some more for libraries and uncounted allocations. */
uint64_t memory_budget_taken(void);
/* Returns the most bytes that the process has had so far; 0: nobody knows. */
uint64_t memory_budget_peak(void);
/* Gives the system back what was freed, so that it does not count beside what is allocated next; where the C
 * library can. */
void memory_budget_give_back(void);
/* Fails because the memory that was asked for, which the ranks of a machine share, is less than what each of
 * them takes with a window of `context` tokens. asked 0: memory_budget_of's was to do. to: what it is not
 * enough for, behind a space; may be "". */
bool memory_budget_fail(const gq_comm *comm, uint64_t asked, const char *to, size_t context, uint64_t taken,
                        gq_error *e);
