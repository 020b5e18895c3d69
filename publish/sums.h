/* SHA256SUMS, for who fetches a publication's files. */
#pragma once

#include "base/checksum.h"
#include "publish/publish.h"

/* Returns the bytes of all files whose SHA-256 will be computed: as they are listed, or before that those of the plan. */
uint64_t publication_summed_bytes(const gq_publication *p);
/* Begins the progress that the two calls below share. */
void publication_begin_sums(gq_publication *p);
/* Writes SHA256SUMS of all files of the outputs. */
bool publication_write_sums(gq_publication *p, gq_error *e);
/* Computes the SHA-256 of the file that all were made of, for the page; to "": it is a folder, or has shards. */
bool publication_sum_source(gq_publication *p, char to[SHA256_TEXT], gq_error *e);
