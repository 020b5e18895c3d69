/* SHA256SUMS, for who fetches a publication's files. */
#pragma once

#include "publish/publish.h"

/* Writes SHA256SUMS of all files of the outputs. */
bool publication_write_sums(gq_publication *p, gq_error *e);
