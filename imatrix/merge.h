/* Importance data put together. */
#ifndef GQ_MERGE_H
#define GQ_MERGE_H

#include "imatrix/imatrix.h"

/* Add `b` into `a` (rules: docs/internals/formats.md, merging); `path` is where b came from, for messages. On
 * failure `a` is good for imatrix_free only. */
bool imatrix_merge(imatrix *a, const imatrix *b, const char *path, gq_error *e);

#endif
