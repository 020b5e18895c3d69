/* A file that is only read: an open descriptor or bytes in memory, with its size taken once. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"

typedef struct gq_file {
    char *path;           /* for messages; owned */
    uint64_t size;        /* bytes, when opened */
    int fd;               /* -1: in memory */
    const uint8_t *bytes; /* in memory; borrowed unless `owned` */
    uint64_t held;        /* bytes that are held in memory; the rest of `size` reads as zeros */
    void *owned;          /* freed by gq_file_close */
    uint64_t device, inode;
    struct timespec modified; /* when opened */
} gq_file;

/* "a FIFO": what a file of this st_mode is, for messages. */
const char *gq_file_kind(uint32_t mode);
/* open(2) whose descriptor is never one of the standard three, which a caller may have closed: what is meant
 * for standard error must not end up in a file. */
int gq_open(const char *path, int flags, uint32_t mode);
/* Whether a path leads to the same file or folder as one of n others, which may be NULL or not exist.
 * Allocates nothing. */
bool gq_file_is_any(const char *path, const char *const *others, size_t n);
/* Read n bytes at an offset of an open file, in as many calls as it takes. Returns how many there were: fewer
 * than n when the file ends there, errno 0, or when reading fails, errno. */
size_t gq_read_at(int fd, uint64_t offset, void *to, size_t n);
/* Open a regular file without ever blocking (FIFOs, devices, directories are refused with a message of their
 * own). */
bool gq_file_open(gq_file *f, const char *path, gq_error *e);
/* Look at bytes in memory as if they were a file. `owned` (may be NULL) is freed at close, or on failure. */
bool gq_file_memory(gq_file *f, const char *name, const void *bytes, uint64_t size, void *owned, gq_error *e);
/* The same for a file of which only the first n bytes are known, and whose size will be `size`. */
bool gq_file_begun(gq_file *f, const char *name, const void *bytes, uint64_t n, uint64_t size, gq_error *e);
/* Read exactly n bytes at offset, or fail naming the file, the offset, and how many bytes were there. Retries
 * EINTR and short reads. Safe from several threads at once. */
bool gq_file_read(const gq_file *f, uint64_t offset, void *to, size_t n, gq_error *e);
/* Whether size and time of change still are those it was opened with; bytes in memory are. To be asked behind
 * work that read it for long: what was read before and after a change does not belong together. */
bool gq_file_unchanged(const gq_file *f, gq_error *e);
/* Hints about a range of n bytes: will_need has the disk fetch it, dont_need drops it from the page cache,
 * and is_cold says whether hardly any of it (at most 8 MiB) is in the page cache. For bytes in memory the
 * first two do nothing, and nothing is cold. */
void gq_file_will_need(const gq_file *f, uint64_t offset, uint64_t n);
void gq_file_dont_need(const gq_file *f, uint64_t offset, uint64_t n);
bool gq_file_is_cold(const gq_file *f, uint64_t offset, uint64_t n);
/* May be called for a file that failed to open, or a zeroed one. */
void gq_file_close(gq_file *f);
