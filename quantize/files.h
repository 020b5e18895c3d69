/* Files that are written whole, from what lies in memory. */
#ifndef GQ_FILES_H
#define GQ_FILES_H

#include "quantize/gquant.h"

typedef struct file_piece {
    const void *bytes; /* NULL: zeros */
    uint64_t n;
} file_piece;
/* Pieces one after another, as gq_write_whole does. */
bool files_write(const char *path, bool replace, const file_piece *pieces, size_t n, gq_error *e);

#endif
