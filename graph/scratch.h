/* Memory laid out piece after piece in one allocation; without the allocation it is only counted, by the same
 * code. */
#ifndef GQ_FORWARD_SCRATCH_H
#define GQ_FORWARD_SCRATCH_H

#include <stdint.h>

typedef struct scratch {
    uint8_t *bytes;   /* NULL: count */
    uint64_t at;      /* UINT64_MAX: more than can be counted */
    uint64_t threads; /* threads that memory is laid out for */
} scratch;

/* Memory for n times `of` elements of `size` bytes, aligned to 64 bytes, a line of the cache; NULL while
 * counting. It belongs to the allocation. */
void *scratch_take(scratch *s, uint64_t n, uint64_t of, uint64_t size);

#endif
