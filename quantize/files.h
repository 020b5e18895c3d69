/* Files that are written whole, from what lies in memory; and what no job may write: what it reads. */
#ifndef GQ_FILES_H
#define GQ_FILES_H

#include "model/model.h"
#include "quantize/gquant.h"

typedef struct file_piece {
    const void *bytes; /* NULL: zeros */
    uint64_t n;
} file_piece;
/* Pieces one after another, as gq_write_whole does. */
bool files_write(const char *path, bool replace, const file_piece *pieces, size_t n, gq_error *e);

/* Whether a file of that name may be written without destroying what is read, by whatever name: one of the
 * model's, or of the n others, which may be NULL or lead nowhere. */
bool files_check_inputs(const char *path, const gguf_model *model, const char *const *others, size_t n,
                        gq_error *e);

#endif
