/* Writes logits to a file: binary32 in the machine's byte order, [position][token of the vocabulary]. The
 * file gets its name when it is whole. base_file.h begins and ends its files in the same way. */
#pragma once

#include "base/error.h"

typedef struct logits_file {
    const char *path;
    char *beside; /* its name until then */
    int fd;
    bool replace;
    size_t vocabulary;
} logits_file;

/* Begins a file that will have `bytes` bytes; UINT64_MAX: more than can be counted. */
bool logits_file_start(logits_file *f, const char *path, bool replace, uint64_t bytes, size_t vocabulary,
                       gq_error *e);
/* Joins a file that another rank has begun, to write a part of it. */
bool logits_file_join(logits_file *f, const char *path, bool replace, size_t vocabulary, gq_error *e);
/* Writes logits [rows][stride] of the vocabulary's tokens from `first_row` on, at n positions from `position`
 * on (n <= stride). */
bool logits_file_add(logits_file *f, size_t position, size_t n, size_t first_row, size_t rows,
                     const float *logits, size_t stride, gq_error *e);
/* Ends this rank's part: what it wrote is on disk. names: it is the rank that has begun the file: with `ok` all is
 * written, and the file gets its name; else it is removed, and *e stays. Returns whether all is there. */
bool logits_file_end(logits_file *f, bool ok, bool names, gq_error *e);
/* Fails with errno, as a write that failed. */
bool logits_file_fail(const logits_file *f, gq_error *e);
