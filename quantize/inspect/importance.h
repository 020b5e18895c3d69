/* Importance data as the public header has it, from the inside. */
#ifndef GQ_INSPECT_IMPORTANCE_H
#define GQ_INSPECT_IMPORTANCE_H

#include "imatrix/imatrix.h"
#include "quantize/gquant.h"

/* Takes over the data; path is for messages. */
gq_imatrix *importance_of(imatrix *data, const char *path, gq_error *e);

#endif
