/* What is kept of finished layers besides the streams' states: which tensors are rounded, what came of it,
 * and checksums of their blocks in the outputs' files. */
#ifndef GQ_CALIBRATE_RECORD_H
#define GQ_CALIBRATE_RECORD_H

#include "quantize/run/calibrate_round.h"
#include "quantize/run/results.h"

typedef struct calibrate_entry {
    uint64_t tensor;
    uint32_t output, crc; /* crc: of the tensor's bytes */
    uint32_t reason, unused;
    gq_rounding rounding; /* without `why`, which follows from the reason */
} calibrate_entry;

typedef struct calibrate_record {
    size_t n, room;
    calibrate_entry *entries;
} calibrate_record;

bool record_add(calibrate_record *r, const calibrate_entry *entry, gq_error *e);
/* Checksums of what is in the files now. */
bool record_sum_up(calibrate_record *r, const gq_plan *plan, const output_set *outputs, gq_error *e);
/* Whether the bytes of a record are entries of the plan's tensors, and the files hold what they say; outputs
 * NULL: the latter is not asked. */
bool record_holds(const uint8_t *bytes, uint64_t n, const gq_plan *plan, const output_set *outputs);
/* Tell the results. */
void record_tell(const uint8_t *bytes, uint64_t n, gq_results *results);

#endif
