/* Files that are written: made where nobody else's is touched, filled whatever interrupts, named when they
 * are whole, and safe from a power cut then. For reading there is base/file.h. */
#pragma once

#include "base/file.h"

/* Folder of a path, "." when it has none; malloc'ed, NULL: no memory. */
char *safe_file_folder(const char *path);
/* A hidden name beside `path`, the same for the same path: ".NAME" + suffix. A NAME of more than 220 bytes is
 * shortened, to the same prefix for every suffix. malloc'ed, NULL: no memory. */
enum { SAFE_FILE_SUFFIX = 34 }; /* length of the longest suffix */
char *safe_file_beside(const char *path, const char *suffix);

/* Opens a file that is there, if it is ours and regular (ENOENT: it is not there); makes a new file. Neither
 * follows a symbolic link. Both return the descriptor, or -1 and errno. */
int safe_file_open(const char *path);
int safe_file_create(const char *path);
/* Makes a locked file under a name that is always the same, in place of what a killed run has left there.
 * Returns the descriptor, or -1 and errno; EEXIST: another process has the file locked, or that is not known. */
int safe_file_renew(const char *path);
/* Removes what a killed run has left under such a name, if anything. */
void safe_file_clean(const char *path);
/* Whether this process may make a file of that size (RLIMIT_FSIZE). To be asked before it is begun: a write
 * beyond the limit ends a process that does not ignore SIGXFSZ, and a library leaves signals as they are. */
bool safe_file_may_grow(const char *path, uint64_t size, gq_error *e);
/* Whether the name still belongs to the open file: another process may have finished and renamed it, or
 * removed it and made its own, between our opening and our locking it. */
bool safe_file_still_there(int fd, const char *path);
bool safe_file_still_in(int fd, int folder, const char *name); /* folder: a descriptor of an open folder */
/* Lock an open file against other processes, without waiting; false: one of them holds it. A file system that
 * cannot lock is taken at its word that nobody else is there. */
typedef enum safe_file_sharing { SAFE_FILE_SHARED, SAFE_FILE_ALONE } safe_file_sharing;
bool safe_file_lock(int fd, safe_file_sharing sharing);
/* Whether nobody else has the file locked, for sure: false also where it cannot be locked. A shared lock
 * becomes one alone, or is lost. */
bool safe_file_lock_alone(int fd);
/* Text of an errno for such a file: strerror, except for a file that another process has locked. */
const char *safe_file_error(int error);
/* Write or read back all n bytes, whatever interrupts; false and errno, ENODATA where the file ends. */
bool safe_file_write(int fd, uint64_t offset, const void *bytes, size_t n);
bool safe_file_read(int fd, uint64_t offset, void *to, size_t n);
/* Reads where "the file is too short" is an answer. *there: the file has all n bytes. False and errno:
 * reading failed, which says nothing about the file. */
bool safe_file_try_read(int fd, uint64_t offset, void *to, size_t n, bool *there);
/* Adds n bytes from an offset on to a checksum (base/checksum.h), where all of them are there. Else as above. */
bool safe_file_sum(int fd, uint64_t offset, uint64_t n, uint32_t *sum, bool *there);
/* Give the file its size, with room on the disk for all of it where the file system can promise that; false
 * and errno. */
bool safe_file_reserve(int fd, uint64_t size);
/* Give a file its name; without `replace` never in the place of another, not even of one that appears this
 * moment. false and errno. */
bool safe_file_rename(const char *from, const char *to, bool replace);
bool safe_file_sync_folder(const char *path, gq_error *e); /* of a file's path */
