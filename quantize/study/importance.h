/* Makes importance data an object of the public header. */
#ifndef GQ_INSPECT_IMPORTANCE_H
#define GQ_INSPECT_IMPORTANCE_H

#include "imatrix/imatrix.h"
#include "quantize/gquant_study.h"

/* Returns an object that owns *data; path is for messages. On failure *data is freed and the result is NULL.
 */
gq_imatrix *importance_of(imatrix *data, const char *path, gq_error *e);

#endif
