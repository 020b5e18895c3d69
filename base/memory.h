/* Memory aligned for vectors, and arrays that grow. free() releases both. */
#pragma once

#include "base/error.h"

/* Memory that is counted by the code that takes it: an object's function lays out its arrays with memory_take,
 * and is called with a ledger that only counts to learn their bytes, then with one that allocates. A buffer that
 * is added to the function is then counted by itself. `peak` is the most that was held at a time between calls
 * of memory_hold and memory_release, by which a caller adds up what takes turns. */
typedef struct memory_ledger {
    bool counts;    /* nothing is allocated */
    bool failed;    /* an allocation was refused; those that follow are not tried */
    uint64_t bytes; /* held now; UINT64_MAX: more than can be counted */
    uint64_t peak;
} memory_ledger;

/* Returns memory_lines of n elements of `size` bytes; NULL while counting, and after a failure. */
void *memory_take(memory_ledger *l, uint64_t n, uint64_t size);
/* The same, filled with zeros. */
void *memory_take_zeros(memory_ledger *l, uint64_t n, uint64_t size);
/* Count bytes that somebody else allocates, or has freed again. */
void memory_hold(memory_ledger *l, uint64_t bytes);
void memory_release(memory_ledger *l, uint64_t bytes);
/* Sets the error of a ledger that failed: so many bytes of the object could not be had. */
bool memory_had(const memory_ledger *l, gq_error *e);

/* Memory for n elements of `size` bytes that begins at a line of the cache, 64 bytes, and has whole lines; of
 * nothing it is one line. NULL: there is not so much, or the number of bytes cannot be counted. */
void *memory_lines(uint64_t n, uint64_t size, gq_error *e);
/* The same with pages, 4096 bytes. */
void *memory_pages(uint64_t n, uint64_t size, gq_error *e);

/* Make room for n elements of `size` bytes in an array. items: the address of the pointer to its elements,
 * which is NULL at first. *capacity: the elements that there is room for; it doubles at least, so that adding
 * elements one by one takes time in proportion to them. On failure the array stays as it was. */
bool memory_grow(void *items, size_t *capacity, uint64_t n, size_t size, gq_error *e);
