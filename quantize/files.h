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

/* Behind the hidden names of files that are being written (safe_file_beside): small ones, and logits. */
#define FILES_NEW_SUFFIX ".gquant-new"
#define FILES_LOGITS_SUFFIX ".logits"

/* Whether a file of that name may be written without destroying what is read, by whatever name: one of the
 * model's, or of the n others, which may be NULL or lead nowhere. Its hidden names are none of them either.
 * model: NULL: none. */
bool files_check_inputs(const char *path, const model_source *model, const char *const *others, size_t n,
                        gq_error *e);

/* Whether a file of that very name is one of these; takes no memory. */
bool files_is_input(const char *path, const model_source *model, const char *const *others, size_t n);

/* Returns the path where a model's measurements are kept unless gq_options names one; malloc'ed, NULL: no
 * memory. */
char *files_measure_path(const char *input);

#endif
