/* What a worker does with a chunk: read, decode, and for each output encode, measure and write. */
#ifndef GQ_WORK_H
#define GQ_WORK_H

#include "quantize/run/output.h"
#include "quantize/run/tally.h"

/* What a thread needs of memory for a plan. */
typedef struct work_rooms {
    size_t strip, in, bytes; /* elements of a strip at most; bytes of the input's, and of all */
    size_t n_outputs;
} work_rooms;

typedef struct work_room {
    uint8_t *in, *out;
    float *x, *decoded;
    chunk_sum *sums;     /* one per output: the result */
    codec_error *errors; /* one per output */
} work_room;

void work_rooms_measure(work_rooms *r, const gq_plan *plan);
work_room work_room_in(const work_rooms *r, void *memory);

/* Do chunk i; the results are in room->sums. */
bool work_chunk(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_room *room,
                gq_error *e);
/* Whether the outputs hold chunk i as room->sums says, by reading it back. */
bool work_verify(const gq_plan *plan, const output_set *outputs, uint64_t i, const work_room *room);

#endif
