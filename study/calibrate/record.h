/* Records of finished steps, which a checkpoint keeps with the streams' hidden states: which tensors are rounded,
 * their figures, checksums of their blocks in the outputs' files, and the mean squares of their inputs, by
 * which they could be encoded plainly. */
#pragma once

#include "study/calibrate/round.h"

/* A tensor's entry. `squares` floats stand behind it: of each matrix the mean squares of its columns, zeros
 * where no token was seen. 0: they are not known. */
typedef struct calibrate_entry {
    uint64_t tensor;
    uint32_t output, crc;     /* crc: of the tensor's bytes */
    uint32_t reason, squares; /* reason: a round_reason */
    calibrate_figures figures;
} calibrate_entry;

typedef struct calibrate_record {
    uint8_t *bytes; /* entries with their floats, one behind the other */
    size_t n, capacity;
} calibrate_record;

bool record_add(calibrate_record *r, const calibrate_entry *entry, const float *squares, gq_error *e);
/* Sets the entries' checksums from what the outputs' files hold now. */
bool record_sum_up(calibrate_record *r, const calibration *job, gq_error *e);

/* Reads the entry that begins at byte *at of a record of n bytes, and moves *at behind it; squares: where its
 * floats begin, not aligned; may be NULL. false: there is none, or what is there is no entry of the job's. */
bool record_next(const uint8_t *bytes, uint64_t n, uint64_t *at, const calibration *job,
                 calibrate_entry *entry, const uint8_t **squares);
/* Whether the output's file has the entry's checksum. false: *e says why that is not known. */
bool record_is_in_file(const calibrate_entry *entry, const calibration *job, bool *holds, gq_error *e);
