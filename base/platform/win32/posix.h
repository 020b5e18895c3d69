/* The parts of POSIX that the sources use and Windows' C library lacks, for builds by mingw-w64:
 * CMakeLists.txt puts this before every source, so that none of them knows of Windows. Names of files are
 * UTF-8. Functions do what POSIX says, as far as the sources ask for it; each says what is different.
 *
 * An open file can be renamed and removed, as everywhere else: all are opened so that they share that
 * (FILE_SHARE_DELETE). Sources: learn.microsoft.com, the pages of the functions that base/platform/win32/
 * calls. */
#pragma once

#define tell win32_tell /* <io.h> takes the name */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef tell
#undef min /* functions here (base/checked.h) */
#undef max

/* ---- files (base/platform/win32/files.c) ---- */

/* Bits that the C library there does not use. There is nothing to block, and no terminal to be controlled by. */
#define O_CLOEXEC O_NOINHERIT
#define O_NONBLOCK 0
#define O_NOCTTY 0
#define O_NOFOLLOW 0x100000
#define O_DIRECTORY 0x200000
#define O_TMPFILE 0x400000 /* refused: EOPNOTSUPP */
#define F_GETFD 1
#define F_DUPFD_CLOEXEC 1030
#define EDQUOT 122

#undef NAME_MAX
#undef PATH_MAX
#define NAME_MAX 255
#define PATH_MAX 4096

#undef stat
#undef fstat
#undef ftruncate
#define stat win32_stat
#define lstat win32_lstat
#define fstat win32_fstat
#define fstatat win32_fstatat
#define open win32_open
#define openat win32_openat
#define unlink win32_unlink
#define unlinkat win32_unlinkat
#define mkdir win32_mkdir
#define rmdir win32_rmdir
#define rename win32_rename
#define access win32_access
#define ftruncate win32_ftruncate
#define fopen win32_fopen

#define S_IFLNK 0xA000
#define S_IFSOCK 0xC000
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#define S_ISSOCK(mode) (((mode)&S_IFMT) == S_IFSOCK)

struct win32_stat {
    uint64_t st_dev, st_ino, st_size, st_blocks; /* of 512 bytes */
    uint32_t st_mode, st_nlink, st_uid;          /* every file is ours: rights are Windows' own affair */
    struct timespec st_mtim;                     /* in steps of 100 ns */
};

int win32_open(const char *path, int flags, ...);
int win32_openat(int folder, const char *name, int flags);
int win32_stat(const char *path, struct win32_stat *st);
int win32_lstat(const char *path, struct win32_stat *st);
int win32_fstat(int fd, struct win32_stat *st);
int win32_fstatat(int folder, const char *name, struct win32_stat *st, int flags);
int win32_unlink(const char *path);
int win32_mkdir(const char *path, uint32_t mode);
int win32_rmdir(const char *path);
int win32_unlinkat(int folder, const char *name, int flags);
int win32_access(const char *path, int mode); /* F_OK */
int win32_rename(const char *from, const char *to);
int link(const char *from, const char *to);
enum { AT_FDCWD = -100, AT_SYMLINK_NOFOLLOW = 0x100, RENAME_NOREPLACE = 1 };
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags);

int fcntl(int fd, int command, ...);
ssize_t pread(int fd, void *to, size_t n, off_t offset);
ssize_t pwrite(int fd, const void *from, size_t n, off_t offset);
/* A folder: EINVAL. Names are safe when renaming has returned, which waits for the disk. */
int fsync(int fd);
#define fdatasync fsync
int win32_ftruncate(int fd, int64_t size);
int fallocate(int fd, int mode, off_t offset, off_t n);
static inline uint32_t geteuid(void) { return 0; }

/* Locks belong to an open file; changing one from shared to alone gives it up in between. */
enum { LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4 };
int flock(int fd, int operation);

struct statvfs {
    uint64_t f_bavail, f_frsize;
};
int fstatvfs(int fd, struct statvfs *fs);

/* Windows reads ahead by itself, and does not report what it caches. */
enum { POSIX_FADV_WILLNEED = 3, POSIX_FADV_DONTNEED = 4, PROT_READ = 1, MAP_SHARED = 1 };
#define MAP_FAILED ((void *)-1)
static inline int posix_fadvise(int fd, off_t offset, off_t n, int advice) {
    return (void)fd, (void)offset, (void)n, (void)advice, 0;
}
static inline void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
    (void)at, (void)n, (void)protection, (void)flags, (void)fd, (void)offset;
    return errno = ENOSYS, MAP_FAILED;
}
static inline int munmap(void *at, size_t n) { return (void)at, (void)n, 0; }
static inline int mincore(void *at, size_t n, unsigned char *resident) {
    return (void)at, (void)n, (void)resident, errno = ENOSYS, -1;
}

/* ---- folders (base/platform/win32/files.c) ---- */

#define DIR win32_folder
#define dirent win32_entry
#define opendir win32_opendir
#define readdir win32_readdir
#define closedir win32_closedir
typedef struct win32_folder win32_folder;
struct win32_entry {
    char d_name[4 * NAME_MAX];
};
win32_folder *win32_opendir(const char *path);
struct win32_entry *win32_readdir(win32_folder *d);
int win32_closedir(win32_folder *d);
int dirfd(win32_folder *d);
char *realpath(const char *path, char *to);
/* Windows resolves links itself, and none leads to a process's files. */
static inline ssize_t readlink(const char *path, char *to, size_t n) {
    return (void)path, (void)to, (void)n, -1;
}

/* ---- memory (base/platform/win32/process.c) ---- */

/* Memory that is aligned comes from another place, which `free` recognizes. */
void *aligned_alloc(size_t alignment, size_t n);
int posix_memalign(void **memory, size_t alignment, size_t n);
void *reallocarray(void *old, size_t n, size_t size);
void win32_free(void *memory);
#define free(memory) win32_free(memory)
static inline size_t malloc_usable_size(void *memory) { return memory ? _msize(memory) : 0; }

/* ---- texts (base/platform/win32/texts.c) ---- */

char *strndup(const char *text, size_t n);
char *strchrnul(const char *text, int c);
char *stpcpy(char *to, const char *text);
char *strsep(char **rest, const char *delimiters);
void *memmem(const void *text, size_t n, const void *part, size_t part_n);
void qsort_r(void *base, size_t n, size_t size, int (*compare)(const void *, const void *, void *),
             void *with);
/* The text is there once the stream is closed. */
FILE *open_memstream(char **text, size_t *n);
/* The locale of a thread: its own, or "C" for a while. */
typedef struct win32_locale *locale_t;
#define LC_ALL_MASK LC_ALL
locale_t newlocale(int mask, const char *name, locale_t of); /* "C" alone */
locale_t uselocale(locale_t l);                              /* by turns that locale and the one before */
void freelocale(locale_t l);
FILE *win32_fopen(const char *path, const char *mode); /* names in ASCII; "/proc/self/statm", too */
int win32_fclose(FILE *f);
#define fclose win32_fclose

/* ---- machine, process, terminal (base/platform/win32/process.c) ---- */

/* winpthreads waits until a time of day only; the sources say until when by the clock that nobody sets. */
int win32_cond_timedwait(pthread_cond_t *wake, pthread_mutex_t *lock, const struct timespec *until);
#define pthread_cond_timedwait win32_cond_timedwait
#define pthread_condattr_setclock win32_condattr_setclock
static inline int win32_condattr_setclock(pthread_condattr_t *attributes, clockid_t clock) {
    return (void)attributes, (void)clock, 0;
}

enum { _SC_PHYS_PAGES = 1, _SC_PAGESIZE, _SC_NPROCESSORS_ONLN };
long sysconf(int name);
enum { GRND_NONBLOCK = 1 };
ssize_t getrandom(void *to, size_t n, unsigned flags);
static inline int getentropy(void *to, size_t n) { return getrandom(to, n, 0) < 0 ? -1 : 0; }

typedef struct cpu_set_t {
    uint64_t mask;
} cpu_set_t;
int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set); /* 64 of them at most: else EINVAL */
#define CPU_COUNT(set) __builtin_popcountll((set)->mask)

typedef uint64_t rlim_t;
struct rlimit {
    rlim_t rlim_cur, rlim_max;
};
struct rusage {
    long ru_maxrss; /* KiB */
};
enum { RLIMIT_FSIZE = 1, RUSAGE_SELF = 0 };
#define RLIM_INFINITY UINT64_MAX
static inline int getrlimit(int what, struct rlimit *most) {
    return (void)what, *most = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY}, 0;
}
int getrusage(int who, struct rusage *use);
enum { AT_BASE = 7 };
static inline unsigned long getauxval(unsigned long what) { return (void)what, 0; } /* linked without any */

struct winsize {
    unsigned short ws_row, ws_col;
};
enum { TIOCGWINSZ = 0x5413 };
int ioctl(int fd, int request, struct winsize *size);
int win32_isatty(int fd);
#define isatty win32_isatty

/* Only that of Ctrl-C comes from outside. */
enum { SIGPIPE = 13, SIGXFSZ = 25, SA_RESETHAND = 1 };
struct sigaction {
    void (*sa_handler)(int signal);
    int sa_flags; /* SA_RESETHAND, as Windows has it anyway */
};
typedef uint64_t sigset_t;
static inline int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    (void)old;
    return signal(number, new->sa_handler) == SIG_ERR ? -1 : 0;
}
static inline int sigemptyset(sigset_t *set) { return *set = 0, 0; }
static inline int sigaddset(sigset_t *set, int number) { return *set |= (sigset_t)1 << number, 0; }
static inline int sigismember(const sigset_t *set, int number) { return *set >> number & 1; }
static inline int sigpending(sigset_t *set) { return *set = 0, 0; }
static inline int sigtimedwait(const sigset_t *set, void *info, const struct timespec *most) {
    return (void)set, (void)info, (void)most, errno = EAGAIN, -1;
}
#undef pthread_sigmask
static inline int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    return (void)how, (void)set, (void)old, 0;
}
