/* The layouts of files, for read.c, which picks one. They know the data structure; it does not know them. */
#ifndef GQ_IMATRIX_LAYOUTS_H
#define GQ_IMATRIX_LAYOUTS_H

#include "imatrix/imatrix.h"

/* If the file is gzip data, put its unpacked bytes in its place (same path, in memory). */
bool imatrix_unpack(gq_file *file, gq_error *e);

/* Both fill an empty *im, which the caller frees on failure too. The second takes over `file`. */
bool imatrix_read_dat(imatrix *im, const gq_file *file, gq_error *e);
bool imatrix_read_gguf(imatrix *im, gq_file *file, gq_error *e);

#endif
