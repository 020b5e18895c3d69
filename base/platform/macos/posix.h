/* The parts of Linux that the sources use and macOS lacks or has otherwise: cmake/macos.cmake puts this
 * before every source, so that none of them knows of macOS. Functions do what Linux's manual says, as far as
 * the sources ask for it; each says what is different. Sources: Apple's manual pages of the functions that
 * are called. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xlocale.h>

/* ---- files ---- */

#define st_mtim st_mtimespec
#define O_TMPFILE 0 /* a folder cannot be opened for writing: callers make a file and remove its name */

enum { RENAME_NOREPLACE = 1 };
static inline int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                            unsigned flags) {
    return renameatx_np(from_folder, from, to_folder, to, flags ? RENAME_EXCL : 0);
}

/* Sets space aside behind the file's end, in one piece or several, and moves the end. File systems that
 * cannot do it say ENOTSUP, which the sources know by its other name. */
static inline int fallocate(int fd, int mode, off_t offset, off_t n) {
    struct stat st;
    (void)mode, (void)offset;
    if (fstat(fd, &st) != 0 || st.st_size >= n) return st.st_size >= n ? 0 : -1;
    fstore_t space = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = n - st.st_size};
    if (fcntl(fd, F_PREALLOCATE, &space) != 0) {
        if (errno == ENOTSUP || errno == EINVAL) errno = EOPNOTSUPP;
        return -1;
    }
    return ftruncate(fd, n);
}

/* There fsync hands bytes to the disk, which may keep them in a cache that a power cut empties. */
static inline int macos_fsync(int fd) { return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : fsync(fd); }
#define fsync macos_fsync
#define fdatasync macos_fsync

/* Reading ahead is asked for; that bytes are no longer needed cannot be said. */
enum { POSIX_FADV_WILLNEED = 3, POSIX_FADV_DONTNEED = 4 };
static inline int posix_fadvise(int fd, off_t offset, off_t n, int advice) {
    struct radvisory ahead = {.ra_offset = offset, .ra_count = (int)n};
    return advice == POSIX_FADV_WILLNEED ? fcntl(fd, F_RDADVISE, &ahead) : 0;
}
static inline int macos_mincore(void *at, size_t n, unsigned char *resident) {
    return mincore(at, n, (char *)resident);
}
#define mincore macos_mincore

/* ---- memory and processors ---- */

/* /proc/self/statm as Linux has it, pages in all and in memory; all other names are those of files. */
static inline FILE *macos_fopen(const char *path, const char *mode) {
    mach_task_basic_info_data_t info;
    mach_msg_type_number_t n = MACH_TASK_BASIC_INFO_COUNT;
    if (strcmp(path, "/proc/self/statm")) return fopen(path, mode);
    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&info, &n) != KERN_SUCCESS)
        return NULL;
    FILE *f = tmpfile();
    unsigned long long page = (unsigned long long)sysconf(_SC_PAGESIZE);
    if (f) fprintf(f, "%llu %llu", info.virtual_size / page, info.resident_size / page), rewind(f);
    return f;
}
#define fopen macos_fopen

/* ru_maxrss is in bytes there, and in units of 1024 here. */
static inline int macos_getrusage(int who, struct rusage *to) {
    int failed = getrusage(who, to);
    if (!failed) to->ru_maxrss /= 1024;
    return failed;
}
#define getrusage macos_getrusage

/* Threads are not tied to processors: callers then count those that are on line. */
typedef struct cpu_set_t {
    int none;
} cpu_set_t;
#define CPU_COUNT(set) ((set)->none)
static inline int sched_getaffinity(int process, size_t n, cpu_set_t *set) {
    return (void)process, (void)n, (void)set, errno = ENOSYS, -1;
}
enum { AT_BASE = 7 };
static inline unsigned long getauxval(unsigned long what) {
    return (void)what, 1;
} /* there is always a loader */

/* ---- the rest of the C library ---- */

enum { GRND_NONBLOCK = 1 };
static inline ssize_t getrandom(void *to, size_t n, unsigned flags) {
    return (void)flags, getentropy(to, n) == 0 ? (ssize_t)n : -1;
}
static inline char *macos_strchrnul(const char *text, int c) {
    char *at = strchr(text, c);
    return at ? at : (char *)text + strlen(text);
}
#define strchrnul macos_strchrnul /* new there, in macOS 15.4 */
static inline void *macos_mempcpy(void *to, const void *from, size_t n) {
    return (char *)memcpy(to, from, n) + n;
}
#define mempcpy macos_mempcpy

static inline void *reallocarray(void *old, size_t n, size_t size) {
    if (size && n > SIZE_MAX / size) return errno = ENOMEM, NULL;
    return realloc(old, n * size);
}
static inline size_t malloc_usable_size(void *memory) { return malloc_size(memory); }

/* Takes a signal of the set that is pending; does not wait. */
static inline int sigtimedwait(const sigset_t *set, void *info, const struct timespec *most) {
    sigset_t pending;
    int taken = 0;
    (void)info, (void)most;
    sigpending(&pending);
    for (int i = 1; i < NSIG; i++)
        if (sigismember(set, i) && sigismember(&pending, i)) return sigwait(set, &taken) == 0 ? taken : -1;
    return errno = EAGAIN, -1;
}

/* The comparison and what it is given stand the other way round there. */
typedef struct macos_order {
    int (*compare)(const void *a, const void *b, void *data);
    void *data;
} macos_order;
static inline int macos_compare(void *order, const void *a, const void *b) {
    return ((macos_order *)order)->compare(a, b, ((macos_order *)order)->data);
}
static inline void macos_qsort_r(void *base, size_t n, size_t size,
                                 int (*compare)(const void *a, const void *b, void *data), void *data) {
    qsort_r(base, n, size, &(macos_order){compare, data}, macos_compare);
}
#define qsort_r macos_qsort_r

/* Conditions wait by the time of day there, or for a time: by the clock that nobody sets, for what is left. */
static inline int pthread_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
    return (void)attributes, (void)clock, 0;
}
static inline int macos_cond_timedwait(pthread_cond_t *wake, pthread_mutex_t *lock,
                                       const struct timespec *until) {
    enum { SECOND = 1000000000 };
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long left = (until->tv_sec - now.tv_sec) * (long long)SECOND + until->tv_nsec - now.tv_nsec;
    if (left <= 0) return ETIMEDOUT;
    return pthread_cond_timedwait_relative_np(wake, lock, &(struct timespec){left / SECOND, left % SECOND});
}
#define pthread_cond_timedwait macos_cond_timedwait
