/* Records of finished layers, which a checkpoint keeps with the streams' states: which tensors are rounded,
 * their figures, and checksums of their blocks in the outputs' files. */
#ifndef GQ_QUANTIZE_STUDY_CALIBRATE_RECORD_H
#define GQ_QUANTIZE_STUDY_CALIBRATE_RECORD_H

#include "quantize/study/calibrate/round.h"

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
/* Sets the entries' checksums from what the outputs' files hold now. */
bool record_sum_up(calibrate_record *r, const calibrate_job *job, gq_error *e);
/* *holds: whether the n bytes of a record are entries of the job's tensors, and the outputs' files have the
 * entries' checksums; the latter is not checked where the store has no `read`. false: memory or a read
 * failed, so *holds says nothing. */
bool record_holds(const uint8_t *bytes, uint64_t n, const calibrate_job *job, bool *holds, gq_error *e);
/* Return the i-th entry of a record, whose bytes need no alignment, and the number of entries in n bytes. */
calibrate_entry record_entry(const uint8_t *bytes, uint64_t i);
static inline uint64_t record_entries(uint64_t n) { return n / sizeof(calibrate_entry); }

#endif
