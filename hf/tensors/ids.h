/* Arrays of integers that stay integers. */
#ifndef GQ_HF_IDS_H
#define GQ_HF_IDS_H

#include "hf/tensors/build.h"

/* Reads an array of I64 or I32. The caller frees it; NULL: *e says why. */
int64_t *hf_ids_read(const hf_found *f, gq_error *e);

#endif
