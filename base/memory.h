/* Memory that vectors are read from, and arrays that grow. free() frees both. */
#ifndef GQ_MEMORY_H
#define GQ_MEMORY_H

#include "base/error.h"

/* Memory for n elements of `size` bytes that begins at a line of the cache, 64 bytes, and has whole lines; of
 * nothing it is one line. NULL: there is not so much, or the number of bytes cannot be counted. */
void *memory_lines(uint64_t n, uint64_t size, gq_error *e);
/* The same with pages, 4096 bytes. */
void *memory_pages(uint64_t n, uint64_t size, gq_error *e);

/* Make room for n elements of `size` bytes in an array. items: the address of the pointer to its elements,
 * which is NULL at first. *capacity: the elements that there is room for; it doubles at least, so that adding
 * elements one by one takes time in proportion to them. On failure the array stays as it was. */
bool memory_grow(void *items, size_t *capacity, uint64_t n, size_t size, gq_error *e);

#endif
