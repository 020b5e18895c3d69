/* The files of a model's folder but the weights: looked up by name, read whole, bounded. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "base/warnings.h"
#include "hf/folder/json.h"

enum { HF_WARNINGS_MOST = 20 };
enum {
    HF_TEXT_MOST = 256 << 20
}; /* bytes of the largest file that is read whole; tokenizer.json has up to 40 MB */

/* A file as it was when it was read: for the model's identity. */
typedef struct hf_file {
    char *name;       /* inside the folder */
    gq_file file;     /* open: weights; else only its name, size, times and number are known */
    uint32_t content; /* checksum of a text that was read whole; 0 for weights */
} hf_file;

typedef struct hf_folder {
    char *path; /* as given, without a slash at its end */
    hf_file *files;
    size_t n_files, capacity;
    warning_list warnings;
} hf_folder;

bool hf_folder_open(hf_folder *f, const char *path, gq_error *e);
void hf_folder_close(hf_folder *f);
/* Returns the path of a file of this name, malloc'ed; whether it is there is not looked at. */
char *hf_folder_path(const hf_folder *f, const char *name, gq_error *e);
/* Whether the folder has such an entry. */
bool hf_folder_has(const hf_folder *f, const char *name);
/* Warns of something in a file that the model can do without; the file's path goes in front, or with "" the
 * folder's. After HF_WARNINGS_MOST warnings one more says that there are more, and the rest is left out. */
bool hf_folder_warn(hf_folder *f, const char *name, gq_error *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Warns by what has failed, an error whose text names the file. */
bool hf_folder_warn_failed(hf_folder *f, const gq_error *why, gq_error *e);
/* Reads a whole file into *text, which the caller frees; a NUL byte follows the n bytes. *text NULL: there is
 * no such file. Symbolic links are followed; what is no regular file is an error, and so is a Git LFS
 * pointer. */
bool hf_folder_text(hf_folder *f, const char *name, char **text, size_t *n, gq_error *e);
/* The same, parsed: *json NULL if there is no such file. */
bool hf_folder_json(hf_folder *f, const char *name, json_t **json, gq_error *e);
/* Adds the names of the files that were read, and checksums of the texts among them, to a checksum. */
void hf_folder_fold(const hf_folder *f, uint32_t *content);
/* Opens a file of weights, which stays open; *number is its number in the list. */
bool hf_folder_weights(hf_folder *f, const char *name, uint32_t *number, gq_error *e);
/* Sorted names of the folder's entries that begin and end so; *names and its strings are freed by
 * hf_names_free. */
bool hf_folder_list(const hf_folder *f, const char *begin, const char *end, char ***names, size_t *n,
                    gq_error *e);
void hf_names_free(char **names, size_t n);
void hf_names_sort(char **names, size_t n); /* by bytes */
