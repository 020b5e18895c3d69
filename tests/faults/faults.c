/* A library to preload that makes system calls go wrong, for tests.
 *
 *     GQ_FAULT=KIND:N:ERRNO    the N-th call of KIND fails with that errno; KIND:N+:ERRNO: it and all later
 *     GQ_FAULT=KIND:N:short    the N-th call (pread, pwrite) does half of what it was asked for
 *     GQ_FAULT=flock:N:other   before the N-th call another process has put its own file in place of this one
 *     GQ_FAULT=KIND:N:kill     the process is killed when it comes to the N-th call
 *     GQ_FAULT=KIND:N:stop     it is stopped there (SIGSTOP), and does the call when it goes on
 *     GQ_FAULT_NAMELESS=KIND:N each N-th call of KIND (pread, pwrite) on a file without a name fails: EIO,
 * ENOSPC GQ_FAULT_COUNT=FILE      write how often each kind was called, one "KIND N" a line, when the program
 * ends GQ_FAULT_LOG=FILE        write "KIND NAME" of each write, sync, rename and unlink that is asked for
 *     GQ_FAULT_FREE=BYTES      so much is free on each disk
 *     GQ_POWER_CUT=N           at the N-th write to a journal the power fails: bytes that were written to
 * other files and not synced are lost, the journal's are not, and the program is gone
 */
#undef _FILE_OFFSET_BITS /* which makes one name of two */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPEN, PREAD, PWRITE, FSYNC, FDATASYNC, FALLOCATE, RENAME, UNLINK, FLOCK, THREAD, N_KINDS };
enum { KILL = -3, STOP = -4 };
static const char *const names[N_KINDS] = {"open",      "pread",  "pwrite", "fsync", "fdatasync",
                                           "fallocate", "rename", "unlink", "flock", "thread"};

static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    int kind, error; /* error -1: short, -2: other, or KILL, STOP */
    long at;
    bool onward;
    long calls[N_KINDS];
    long cut_at, journal_writes;
    struct undo {
        int fd;
        off_t offset;
        size_t n;
        unsigned char *old;
    } * undo;
    size_t n_undo;
} state = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .kind = -1};

static void read_wishes(void) {
    char kind[32] = "", error[32] = "";
    const char *fault = getenv("GQ_FAULT"), *cut = getenv("GQ_POWER_CUT");
    if (cut) state.cut_at = atol(cut);
    if (!fault) return;
    state.onward = strchr(fault, '+') != NULL;
    if (sscanf(fault, state.onward ? "%31[a-z]:%ld+:%31s" : "%31[a-z]:%ld:%31s", kind, &state.at, error) != 3)
        abort();
    for (int i = 0; i < N_KINDS; i++)
        if (!strcmp(kind, names[i])) state.kind = i;
    state.error = !strcmp(error, "short")   ? -1
                  : !strcmp(error, "other") ? -2
                  : !strcmp(error, "kill")  ? KILL
                  : !strcmp(error, "stop")  ? STOP
                                            : atoi(error);
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("GQ_FAULT_COUNT");
    FILE *f = path ? fopen(path, "w") : NULL;
    for (int i = 0; f && i < N_KINDS; i++) fprintf(f, "%s %ld\n", names[i], state.calls[i]);
    if (f) fclose(f);
}

/* 0: go on; -1: do half; else the errno to fail with. */
static int fate(int kind) {
    pthread_once(&state.once, read_wishes);
    pthread_mutex_lock(&state.lock);
    long n = ++state.calls[kind];
    pthread_mutex_unlock(&state.lock);
    if (kind != state.kind || (state.onward ? n < state.at : n != state.at)) return 0;
    if (state.error == KILL) kill(getpid(), SIGKILL);
    if (state.error == STOP) kill(getpid(), SIGSTOP);
    return state.error == STOP ? 0 : state.error;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- what was asked for, in order ---- */

static void path_of(int fd, char path[4096]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    path[n < 0 ? 0 : n] = 0;
}

static void note(int kind, const char *path) {
    const char *to = getenv("GQ_FAULT_LOG"), *slash = strrchr(path, '/');
    int log = to ? REAL(open)(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (log < 0) return;
    dprintf(log, "%s %s\n", names[kind], slash ? slash + 1 : path);
    close(log);
}

static void note_fd(int kind, int fd) {
    char path[4096];
    path_of(fd, path);
    note(kind, path);
}

#define FAIL_IF_ASKED(kind) \
    do { \
        int f_ = fate(kind); \
        if (f_) { \
            errno = f_ > 0 ? f_ : EIO; \
            return -1; \
        } \
    } while (0)

/* ---- power cuts ---- */

static bool is_journal(int fd) {
    char path[4096];
    path_of(fd, path);
    return strstr(path, ".gquant-journal") != NULL;
}

static void remember(int fd, size_t n, off_t offset) {
    unsigned char *old = malloc(n + 1);
    ssize_t had = REAL(pread)(fd, old, n, offset);
    if (had < (ssize_t)n) memset(old + (had > 0 ? had : 0), 0, n - (size_t)(had > 0 ? had : 0));
    state.undo = realloc(state.undo, (state.n_undo + 1) * sizeof *state.undo);
    state.undo[state.n_undo++] = (struct undo){fd, offset, n, old};
}

/* What was written before the sync began is safe now. */
static void forget(int fd, size_t before) {
    pthread_mutex_lock(&state.lock);
    size_t kept = 0;
    for (size_t i = 0; i < state.n_undo; i++)
        if (i < before && state.undo[i].fd == fd)
            free(state.undo[i].old);
        else
            state.undo[kept++] = state.undo[i];
    state.n_undo = kept;
    pthread_mutex_unlock(&state.lock);
}

/* Has a file's writes undone after it is closed, through another descriptor: its number may be another file's
 * then. What has no name is gone with its last descriptor. */
static void outlive(int fd) {
    char path[4096];
    int other = -1;
    path_of(fd, path);
    if (strstr(path, " (deleted)")) {
        forget(fd, SIZE_MAX);
        return;
    }
    pthread_mutex_lock(&state.lock);
    for (size_t i = 0; i < state.n_undo; i++) {
        if (state.undo[i].fd != fd) continue;
        if (other < 0) other = REAL(open)(path, O_WRONLY | O_CLOEXEC);
        state.undo[i].fd = other;
    }
    pthread_mutex_unlock(&state.lock);
}

static void cut_power(void) {
    for (size_t i = state.n_undo; i-- > 0;)
        if (REAL(pwrite)(state.undo[i].fd, state.undo[i].old, state.undo[i].n, state.undo[i].offset) < 0)
            abort();
    _exit(99);
}

static ssize_t write_under_threat(int fd, const void *bytes, size_t n, off_t offset) {
    pthread_mutex_lock(&state.lock);
    bool journal = is_journal(fd);
    if (!journal) remember(fd, n, offset);
    ssize_t done = REAL(pwrite)(fd, bytes, n, offset);
    if (journal && ++state.journal_writes == state.cut_at) cut_power();
    pthread_mutex_unlock(&state.lock);
    return done;
}

static int sync_under_threat(int fd, int (*sync)(int)) {
    pthread_mutex_lock(&state.lock);
    size_t before = state.n_undo;
    pthread_mutex_unlock(&state.lock);
    int result = sync(fd);
    if (result == 0) forget(fd, before);
    return result;
}

/* ---- the calls, under both names that large-file support may give them ---- */

static int do_open(const char *path, int flags, va_list arguments) {
    FAIL_IF_ASKED(OPEN);
    return REAL(open)(path, flags, flags & O_CREAT ? va_arg(arguments, mode_t) : 0);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int fd = do_open(path, flags, arguments);
    va_end(arguments);
    return fd;
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int fd = do_open(path, flags, arguments);
    va_end(arguments);
    return fd;
}

/* Whether a call on a file without a name is to fail. */
static bool fails_nameless(int kind, int fd) {
    static _Atomic long calls[N_KINDS];
    const char *wish = getenv("GQ_FAULT_NAMELESS");
    size_t n = strlen(names[kind]);
    char path[4096];
    if (!wish || strncmp(wish, names[kind], n) != 0 || wish[n] != ':') return false;
    path_of(fd, path);
    return strstr(path, " (deleted)") && ++calls[kind] % atol(wish + n + 1) == 0;
}

ssize_t pread(int fd, void *to, size_t n, off_t offset) {
    int f = fate(PREAD);
    if (fails_nameless(PREAD, fd)) return errno = EIO, -1;
    if (f > 0) return errno = f, -1;
    return REAL(pread)(fd, to, f < 0 ? (n + 1) / 2 : n, offset);
}
ssize_t pread64(int fd, void *to, size_t n, off_t offset) { return pread(fd, to, n, offset); }
/* What _FORTIFY_SOURCE makes of it where the size of `to` is known. */
ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room) {
    if (n > room) abort();
    return pread(fd, to, n, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset) {
    note_fd(PWRITE, fd);
    int f = fate(PWRITE);
    if (fails_nameless(PWRITE, fd)) return errno = ENOSPC, -1;
    if (f > 0) return errno = f, -1;
    if (f < 0) n = (n + 1) / 2;
    return state.cut_at ? write_under_threat(fd, bytes, n, offset) : REAL(pwrite)(fd, bytes, n, offset);
}
ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t offset) { return pwrite(fd, bytes, n, offset); }

int close(int fd) {
    if (state.cut_at) outlive(fd);
    return REAL(close)(fd);
}

int fsync(int fd) {
    note_fd(FSYNC, fd);
    FAIL_IF_ASKED(FSYNC);
    return state.cut_at ? sync_under_threat(fd, REAL(fsync)) : REAL(fsync)(fd);
}

int fdatasync(int fd) {
    note_fd(FDATASYNC, fd);
    FAIL_IF_ASKED(FDATASYNC);
    return state.cut_at ? sync_under_threat(fd, REAL(fdatasync)) : REAL(fdatasync)(fd);
}

int fallocate(int fd, int mode, off_t offset, off_t n) {
    FAIL_IF_ASKED(FALLOCATE);
    return REAL(fallocate)(fd, mode, offset, n);
}
int fallocate64(int fd, int mode, off_t offset, off_t n) { return fallocate(fd, mode, offset, n); }

int fstatvfs(int fd, struct statvfs *fs) {
    const char *wish = getenv("GQ_FAULT_FREE");
    int failed = REAL(fstatvfs)(fd, fs);
    if (wish) fs->f_frsize = 1, fs->f_bavail = (fsblkcnt_t)atoll(wish);
    return failed;
}
/* Both structures are the same where file offsets have 64 bits anyway. */
int fstatvfs64(int fd, struct statvfs64 *fs) { return fstatvfs(fd, (struct statvfs *)fs); }

int rename(const char *from, const char *to) {
    note(RENAME, to);
    FAIL_IF_ASKED(RENAME);
    return REAL(rename)(from, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    note(RENAME, to);
    FAIL_IF_ASKED(RENAME);
    return REAL(renameat2)(a, from, b, to, flags);
}

int unlink(const char *path) {
    note(UNLINK, path);
    FAIL_IF_ASKED(UNLINK);
    return REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags) {
    note(UNLINK, path);
    FAIL_IF_ASKED(UNLINK);
    return REAL(unlinkat)(folder, path, flags);
}

static void replace_file(int fd) {
    char path[4096];
    path_of(fd, path);
    REAL(unlink)(path);
    int other = REAL(open)(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (other < 0 || REAL(pwrite)(other, "other", 5, 0) != 5) abort();
    close(other);
}

int flock(int fd, int what) {
    int f = fate(FLOCK);
    if (f > 0) return errno = f, -1;
    if (f < 0) replace_file(fd);
    return REAL(flock)(fd, what);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*enter)(void *), void *arg) {
    int f = fate(THREAD);
    return f ? f : REAL(pthread_create)(thread, attributes, enter, arg);
}
