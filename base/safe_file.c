/* Files that are written, step by step: an output grows under a hidden name beside its own
 * (safe_file_beside), which is locked, so that two processes never write the same one. When it is whole, it
 * is synced, gets its name, and its folder is synced. A killed process leaves the hidden file behind without
 * a lock; who finds it so may remove it. Between looking at a name and locking the file behind it another
 * process may act, so the name is compared with the open file once the lock is held (safe_file_still_there).
 */
#include "base/safe_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"

char *safe_file_folder(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* The checksum of a name, the same for names that differ in the case of ASCII letters alone: where those are
 * one file, what lies beside it is one, too. */
static unsigned long name_checksum(const char *name, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        char c = name[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        sum = checksum_add(sum, &c, 1);
    }
    return sum;
}

/* One prefix for all that lies beside an output, or what one run calls by a suffix the next would not find:
 * a name is shortened so that the longest suffix fits, even where a shorter one follows. */
char *safe_file_beside(const char *path, const char *suffix) {
    enum { CRC = 9, ROOM = NAME_MAX - 1 - SAFE_FILE_SUFFIX };
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name), kept = n;
    char *beside = NULL, sum[CRC + 1] = "";
    if (n > ROOM) { /* as much of it as fits, and its CRC to distinguish long names */
        kept = ROOM - CRC;
        while (kept > ROOM - CRC - 4 && (name[kept] & 0xC0) == 0x80) kept--; /* not within a UTF-8 sequence */
        snprintf(sum, sizeof sum, "-%08lx", name_checksum(name, n));
    }
    int got = asprintf(&beside, "%.*s.%.*s%s%s", (int)(name - path), path, (int)kept, name, sum, suffix);
    return got < 0 ? NULL : beside;
}

int safe_file_open(const char *path) {
    struct stat st;
    int fd = gq_open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0) return -1;
    /* The name is predictable, so another user may have put a file or a link in its place. */
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

int safe_file_create(const char *path) { return gq_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666); }

static bool is_file(int fd, const struct stat *named) {
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_dev == named->st_dev && st.st_ino == named->st_ino;
}

bool safe_file_still_there(int fd, const char *path) {
    struct stat named;
    return lstat(path, &named) == 0 && is_file(fd, &named);
}

bool safe_file_still_in(int fd, int folder, const char *name) {
    struct stat named;
    return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && is_file(fd, &named);
}

bool safe_file_lock(int fd, safe_file_sharing sharing) {
    int kind = sharing == SAFE_FILE_ALONE ? LOCK_EX : LOCK_SH;
    return flock(fd, kind | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR);
}

bool safe_file_lock_alone(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0; }

const char *safe_file_error(int error) {
    return error == EWOULDBLOCK || error == EAGAIN ? "another gquant is using it, wait until it is done"
                                                   : strerror(error);
}

/* While it is locked nobody else can have begun to write it. */
static bool remove_left(int fd, const char *path) {
    return safe_file_lock_alone(fd) && safe_file_still_there(fd, path) && unlink(path) == 0;
}

int safe_file_renew(const char *path) {
    int fd = safe_file_open(path);
    if (fd < 0 && errno != ENOENT) return -1;
    bool is_free = fd < 0 || remove_left(fd, path);
    if (fd >= 0) close(fd);
    if (!is_free) return errno = EEXIST, -1;
    fd = safe_file_create(path);
    if (fd < 0 || (safe_file_lock(fd, SAFE_FILE_ALONE) && safe_file_still_there(fd, path))) return fd;
    close(fd); /* somebody has taken it for a killed run's, and it is his now */
    return errno = EEXIST, -1;
}

void safe_file_clean(const char *path) {
    int fd = safe_file_open(path);
    if (fd < 0) return;
    remove_left(fd, path);
    close(fd);
}

bool safe_file_may_grow(const char *path, uint64_t size, gq_error *e) {
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY || size <= most.rlim_cur ||
           gq_fail(e,
                   "cannot write %s: it needs %llu bytes, and files may have at most %llu here (raise the "
                   "limit: ulimit -f)",
                   path, (unsigned long long)size, (unsigned long long)most.rlim_cur);
}

bool safe_file_write(int fd, uint64_t offset, const void *bytes, size_t n) {
    for (const uint8_t *at = bytes; n > 0;) {
        ssize_t done = pwrite(fd, at, n, (off_t)offset);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = EIO;
        if (done <= 0) return false;
        at += done, offset += (uint64_t)done, n -= (size_t)done;
    }
    return true;
}

bool safe_file_read(int fd, uint64_t offset, void *to, size_t n) {
    if (gq_read_at(fd, offset, to, n) == n) return true;
    if (errno == 0) errno = ENODATA;
    return false;
}

bool safe_file_try_read(int fd, uint64_t offset, void *to, size_t n, bool *there) {
    *there = safe_file_read(fd, offset, to, n);
    return *there || errno == ENODATA;
}

bool safe_file_sum(int fd, uint64_t offset, uint64_t n, uint32_t *sum, bool *there) {
    uint8_t piece[1 << 16];
    *there = true;
    for (uint64_t at = 0, some; *there && at < n; at += some) {
        some = n - at < sizeof piece ? n - at : sizeof piece;
        if (!safe_file_try_read(fd, offset + at, piece, some, there)) return false;
        if (*there) *sum = checksum_add(*sum, piece, some);
    }
    return true;
}

bool safe_file_reserve(int fd, uint64_t size) {
    int failed;
    do failed = fallocate(fd, 0, 0, (off_t)size);
    while (failed && errno == EINTR);
    if (failed && (errno == EOPNOTSUPP || errno == ENOSYS)) failed = ftruncate(fd, (off_t)size);
    return !failed;
}

bool safe_file_rename(const char *from, const char *to, bool replace) {
    if (replace) return rename(from, to) == 0;
    /* A file that has appeared meanwhile is not ours to replace. */
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    /* The file system cannot do that; most can link, which does not replace either. */
    if (link(from, to) == 0) return unlink(from) == 0 || (unlink(to), false);
    struct stat st;
    if (errno == EEXIST || lstat(to, &st) == 0) return errno = EEXIST, false;
    return rename(from, to) == 0;
}

/* Without allocating: between two names that belong together nothing should fail that need not. */
bool safe_file_sync_folder(const char *path, gq_error *e) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = n < PATH_MAX ? gq_open(folder, O_RDONLY | O_DIRECTORY, 0) : -1;
    /* Some file systems cannot sync a folder and say EINVAL; there is no more to be done there. */
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    if (!ok) gq_fail(e, "cannot sync the folder %s: %s", folder, strerror(errno));
    if (fd >= 0) close(fd);
    return ok;
}
