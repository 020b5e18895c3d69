/* Records of finished layers, kept besides the streams' states: which tensors are rounded, the resulting
 * figures, and checksums of their blocks in the outputs' files. */
#ifndef GQ_CALIBRATE_RECORD_H
#define GQ_CALIBRATE_RECORD_H

#include "quantize/calibrate/round.h"

/* A tensor's entry in the checkpoint. */
typedef struct calibrate_entry {
    uint64_t tensor;
    uint32_t output, crc;    /* crc: of the tensor's bytes */
    uint32_t reason, unused; /* a round_reason */
    calibrate_figures figures;
} calibrate_entry;

typedef struct calibrate_record {
    size_t n, capacity;
    calibrate_entry *entries;
} calibrate_record;

bool record_add(calibrate_record *r, const calibrate_entry *entry, gq_error *e);
/* Checksums of what is in the files now. */
bool record_sum_up(calibrate_record *r, const calibrate_job *job, gq_error *e);
/* *holds: the bytes of a record are entries of the job's tensors, and the files hold what they say, unless
 * the store is not read. False: memory or a read failed, so that it cannot be told. */
bool record_holds(const uint8_t *bytes, uint64_t n, const calibrate_job *job, bool *holds, gq_error *e);
/* The i-th entry of a record, which may begin anywhere in memory, and how many there are. */
calibrate_entry record_entry(const uint8_t *bytes, uint64_t i);
static inline uint64_t record_entries(uint64_t n) { return n / sizeof(calibrate_entry); }

#endif
