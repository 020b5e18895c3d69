#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

const char *gq_file_kind(uint32_t mode) {
    return S_ISREG(mode)    ? "a regular file"
           : S_ISDIR(mode)  ? "a directory"
           : S_ISFIFO(mode) ? "a FIFO"
           : S_ISSOCK(mode) ? "a socket"
                            : "a device";
}

int gq_open(const char *path, int flags, uint32_t mode) {
    int fd = open(path, flags | O_CLOEXEC, (mode_t)mode);
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return higher;
}

bool gq_file_is_any(const char *path, const char *const *others, size_t n) {
    struct stat st, other;
    bool is = false;
    if (stat(path, &st) != 0) return false;
    for (size_t i = 0; !is && i < n; i++)
        is = others[i] && stat(others[i], &other) == 0 && other.st_dev == st.st_dev &&
             other.st_ino == st.st_ino;
    return is;
}

static bool check_regular(const struct stat *st, const char *path, gq_error *e) {
    return S_ISREG(st->st_mode) ||
           gq_fail(e, "%s: is %s, expected a regular file", path, gq_file_kind(st->st_mode));
}

static int open_regular(const char *path, struct stat *st, gq_error *e) {
    /* The kind is looked at before opening, because opening a device can do things, and again after it, because
     * another file may have taken the name meanwhile. O_NONBLOCK: a FIFO without a writer would block here. */
    int fd = -1;
    if (stat(path, st) == 0) {
        if (!check_regular(st, path, e)) return -1;
        fd = gq_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    }
    if (fd < 0) {
        const char *hint = errno == EMFILE ? " (raise the limit: ulimit -n)" : "";
        gq_fail(e, "%s: cannot be opened: %s%s", path, strerror(errno), hint);
        return -1;
    }
    if (fstat(fd, st) != 0) {
        gq_fail(e, "%s: cannot be examined: %s", path, strerror(errno));
    } else if (check_regular(st, path, e)) {
        return fd;
    }
    close(fd);
    return -1;
}

bool gq_file_open(gq_file *f, const char *path, gq_error *e) {
    struct stat st;
    *f = (gq_file){.fd = -1};
    int fd = open_regular(path, &st, e);
    if (fd < 0) return false;
    char *copy = strdup(path);
    if (!copy) {
        close(fd);
        return gq_fail_memory(e, strlen(path) + 1);
    }
    *f = (gq_file){.path = copy,
                   .size = (uint64_t)st.st_size,
                   .fd = fd,
                   .device = st.st_dev,
                   .inode = st.st_ino,
                   .modified = st.st_mtim};
    return true;
}

bool gq_file_memory(gq_file *f, const char *name, const void *bytes, uint64_t size, void *owned,
                    gq_error *e) {
    *f =
        (gq_file){.path = strdup(name), .size = size, .fd = -1, .bytes = bytes, .held = size, .owned = owned};
    if (f->path) return true;
    gq_file_close(f);
    return gq_fail_memory(e, strlen(name) + 1);
}

bool gq_file_begun(gq_file *f, const char *name, const void *bytes, uint64_t n, uint64_t size, gq_error *e) {
    if (!gq_file_memory(f, name, bytes, size, NULL, e)) return false;
    f->held = n;
    return true;
}

size_t gq_read_at(int fd, uint64_t offset, void *to, size_t n) {
    size_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) break;
        done += (size_t)got;
    }
    return done;
}

bool gq_file_read(const gq_file *f, uint64_t offset, void *to, size_t n, gq_error *e) {
    if (offset > f->size || n > f->size - offset) {
        return gq_fail(e, "%s: %zu bytes at offset %llu are wanted, but the file has %llu bytes", f->path, n,
                       (unsigned long long)offset, (unsigned long long)f->size);
    }
    if (f->fd < 0) {
        size_t left = offset < f->held ? f->held - offset : 0, held = n < left ? n : left;
        if (held) memcpy(to, f->bytes + offset, held);
        if (held < n) memset((uint8_t *)to + held, 0, n - held);
        return true;
    }
    size_t done = gq_read_at(f->fd, offset, to, n);
    if (done == n) return true;
    if (errno == 0)
        return gq_fail(e, "%s: shrank while in use: it had %llu bytes, now it ends at byte %llu", f->path,
                       (unsigned long long)f->size, (unsigned long long)(offset + done));
    return gq_fail(e, "%s: reading %zu bytes at offset %llu failed after %zu bytes: %s", f->path, n,
                   (unsigned long long)offset, done, strerror(errno));
}

bool gq_file_unchanged(const gq_file *f, gq_error *e) {
    struct stat st;
    if (f->bytes || !f->path) return true;
    if ((f->fd < 0 ? stat(f->path, &st) : fstat(f->fd, &st)) != 0)
        return gq_fail(e, "%s: cannot be examined: %s", f->path, strerror(errno));
    return ((uint64_t)st.st_size == f->size && st.st_mtim.tv_sec == f->modified.tv_sec &&
            st.st_mtim.tv_nsec == f->modified.tv_nsec) ||
           gq_fail(e, "%s was changed while it was being read", f->path);
}

void gq_file_close(gq_file *f) {
    if (f->path && f->fd >= 0) close(f->fd); /* a zeroed gq_file is closed already: its fd 0 is not ours */
    free(f->path);
    free(f->owned);
    *f = (gq_file){.fd = -1};
}

/* ---- the page cache of a file that is read ---- */

enum {
    ASKED_BYTES = 1 << 20, /* of more at once the kernel reads the beginning only */
    COLD_BYTES = 8 << 20,  /* the longest range that gq_file_is_cold looks at */
    SMALLEST_PAGE = 4096,
};

void gq_file_will_need(const gq_file *f, uint64_t offset, uint64_t n) {
    for (uint64_t at = 0; f->fd >= 0 && at < n; at += ASKED_BYTES)
        posix_fadvise(f->fd, (off_t)(offset + at), (off_t)(n - at < ASKED_BYTES ? n - at : ASKED_BYTES),
                      POSIX_FADV_WILLNEED);
}

void gq_file_dont_need(const gq_file *f, uint64_t offset, uint64_t n) {
    if (f->fd >= 0) posix_fadvise(f->fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED);
}

/* A mapping that is never touched costs nothing. Neighbors' pages reach into the range, so a quarter of it
 * may be cached. Of files that the user may not write the kernel says that all is cached. */
bool gq_file_is_cold(const gq_file *f, uint64_t offset, uint64_t n) {
    unsigned char resident[COLD_BYTES / SMALLEST_PAGE + 1];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = offset / page * page,
             length = offset + n - start;
    size_t pages = (length + page - 1) / page, cached = 0;
    if (f->fd < 0 || pages > sizeof resident) return false;
    void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, f->fd, (off_t)start);
    if (at == MAP_FAILED) return false;
    bool known = mincore(at, length, resident) == 0;
    for (size_t i = 0; known && i < pages; i++) cached += resident[i] & 1;
    munmap(at, length);
    return known && cached < pages / 4 + 1;
}
