/* What a worker does with a chunk: read, decode, and for each output encode, measure and write. */
#ifndef GQ_WORK_H
#define GQ_WORK_H

#include "quantize/run/output.h"
#include "quantize/run/tally.h"

/* A thread's own memory. */
typedef struct work_room {
    void *memory;
    uint8_t *in, *out;
    float *x, *decoded;
    chunk_sum *sums; /* one per output: the result */
} work_room;

bool work_room_new(work_room *room, const gq_plan *plan, gq_error *e);
void work_room_free(work_room *room);

typedef enum work_status {
    WORK_DONE,
    WORK_BAD_INPUT, /* the weights cannot be quantized: no use trying again */
    WORK_FAILED,    /* reading or writing failed */
} work_status;

/* Do chunk i; the results are in room->sums. */
work_status work_chunk(const gq_plan *plan, const output_set *outputs, uint64_t i, work_room *room,
                       gq_error *e);
/* Whether the outputs hold chunk i as room->sums says, by reading it back. */
bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, work_room *room);

#endif
