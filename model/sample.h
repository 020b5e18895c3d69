/* A sample of what files hold, for a model's fingerprint. */
#ifndef GQ_MODEL_SAMPLE_H
#define GQ_MODEL_SAMPLE_H

#include "base/file.h"

/* Bytes of a file that belong together: the elements of a tensor. */
typedef struct sample_range {
    const gq_file *file;
    uint64_t offset, size;
} sample_range;

/* Folds pieces of n ranges into a checksum: up to 4 MiB, which are read in no time and reach every part of a
 * large model. `range_of` returns range number i. */
bool sample_fold(uint64_t n, sample_range (*range_of)(const void *user, uint64_t i), const void *user,
                 uint32_t *content, gq_error *e);

#endif
