/* Writes files whole from memory, and checks that no job writes over what it reads. */
#pragma once

#include "gguf/model.h"
#include "quantize/gquant_common.h"

typedef struct file_piece {
    const void *bytes; /* NULL: zeros */
    uint64_t n;
} file_piece;
/* Writes n pieces one after another into a file, in the way of gq_write_whole. */
bool files_write(const char *path, bool replace, const file_piece *pieces, size_t n, gq_error *e);

/* Suffixes of the hidden names (safe_file_beside) that files have while they are written: small ones, and
 * logits. */
#define FILES_NEW_SUFFIX ".gquant-new"
#define FILES_LOGITS_SUFFIX ".logits"

/* Fails where writing a file of that name would destroy an input: a file of the model's (NULL: there is no
 * model), or one of the n others, each of which may be NULL or not exist. The hidden names of the file are
 * checked, too. */
bool files_check_inputs(const char *path, const model_source *model, const char *const *others, size_t n,
                        gq_error *e);

/* Whether the first kilobytes of a file have a word: of one that is damaged, whether it was one of ours. */
bool files_begin_with(const char *path, const char *word);
/* Whether the folder of a file is not there. Without memory to find out: false. */
bool files_lack_folder(const char *path);
/* The warning of a plan that is not run; %s is the file. */
#define FILES_NO_FOLDER "the folder of %s does not exist yet; the run needs it"

/* Whether the file or folder of that very name is one of these inputs, whose names may be NULL. Allocates
 * nothing. */
bool files_is_input(const char *path, const model_source *model, const char *const *others, size_t n);
