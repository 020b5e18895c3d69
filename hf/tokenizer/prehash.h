/* Names of pre-tokenizers by the ids that a vocabulary has for one text.
 *
 * llama.cpp names a way of cutting texts by a digest of the ids of a fixed text, BOS included where the model
 * puts it. The table holds the digests that it knows.
 */
#ifndef GQ_HF_PREHASH_H
#define GQ_HF_PREHASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

extern const char hf_check_text[]; /* the text to encode: UTF-8, ends with a NUL that does not belong to it */
/* Finds the name of a vocabulary that encodes the text to these ids; *name NULL: none is known. */
bool hf_prehash_find(const uint32_t *ids, size_t n, const char **name, gq_error *e);

#endif
