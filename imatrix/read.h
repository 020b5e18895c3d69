/* Importance data read, in whichever layout a file's content shows. */
#ifndef GQ_IMATRIX_READ_H
#define GQ_IMATRIX_READ_H

#include "imatrix/imatrix.h"

/* On failure *im is empty: there is nothing to free, and imatrix_free does no harm. */
bool imatrix_open(imatrix *im, const char *path, gq_error *e);
/* The same; takes over `file`. */
bool imatrix_read(imatrix *im, gq_file *file, gq_error *e);

#endif
