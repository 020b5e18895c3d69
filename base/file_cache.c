/* The page cache of a file that is read. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

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

/* A mapping that is never touched costs nothing. Neighbours' pages reach into the range, so a quarter of it
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
