#include "study/evaluate/evaluate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/safe_file.h"
#include "base/units.h"
#include "quantize/quantize.h"

bool logits_file_fail(const logits_file *f, gq_error *e) {
    return gq_fail(e, "%s: cannot write: %s", f->path, strerror(errno));
}

/* Opens the file beside the one of that name, or makes it. */
static bool logits_file_open(logits_file *f, int (*open_file)(const char *path), const char *path,
                             bool replace, size_t vocabulary, gq_error *e) {
    *f = (logits_file){.path = path, .replace = replace, .vocabulary = vocabulary};
    f->beside = safe_file_beside(path, FILES_LOGITS_SUFFIX);
    if (!f->beside) return gq_fail_memory(e, strlen(path));
    f->fd = open_file(f->beside);
    if (f->fd >= 0) return true;
    if (errno == EEXIST)
        gq_fail(e, "another process is writing %s (it holds %s)", path, f->beside);
    else
        logits_file_fail(f, e);
    free(f->beside);
    f->beside = NULL;
    return false;
}

/* Whether a file of so many bytes fits beside what is there: a text's logits are 4 bytes for each token of the vocabulary at each position,
 * and hours of work go into them. Where the system does not say, writing shows it. */
static bool logits_file_fits(const char *path, const char *beside, int fd, uint64_t bytes, gq_error *e) {
    struct statvfs fs;
    char needed[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];
    if (fstatvfs(fd, &fs) != 0) return true;
    uint64_t room = mul_sat(fs.f_bavail, fs.f_frsize);
    if (bytes <= room) return true;
    units_compared(needed, bytes, available, room);
    unlink(beside);
    return gq_fail(e, "cannot write %s: it needs %s and %s are free", path, needed, available);
}

bool logits_file_start(logits_file *f, const char *path, bool replace, uint64_t bytes, size_t vocabulary,
                       gq_error *e) {
    *f = (logits_file){.fd = -1};
    if (bytes == UINT64_MAX) return gq_fail(e, "%s: so many logits are more than a file can hold", path);
    if (!gq_check_target(path, replace, e) || !safe_file_may_grow(path, bytes, e) ||
        !logits_file_open(f, safe_file_renew, path, replace, vocabulary, e))
        return false;
    if (logits_file_fits(path, f->beside, f->fd, bytes, e)) return true;
    close(f->fd), free(f->beside);
    return *f = (logits_file){.fd = -1}, false;
}

bool logits_file_join(logits_file *f, const char *path, bool replace, size_t vocabulary, gq_error *e) {
    return logits_file_open(f, safe_file_open, path, replace, vocabulary, e);
}

bool logits_file_add(logits_file *f, size_t position, size_t n, size_t first_row, size_t rows,
                     const float *logits, size_t stride, gq_error *e) {
    float *token = malloc(rows * sizeof *token);
    if (!token) return gq_fail_memory(e, rows * sizeof *token);
    bool ok = true;
    for (size_t t = 0; ok && t < n; t++) {
        uint64_t at = ((uint64_t)(position + t) * f->vocabulary + first_row) * sizeof *token;
        for (size_t r = 0; r < rows; r++) token[r] = logits[r * stride + t];
        ok = safe_file_write(f->fd, at, token, rows * sizeof *token) || logits_file_fail(f, e);
    }
    free(token);
    return ok;
}

bool logits_file_end(logits_file *f, bool ok, bool names, gq_error *e) {
    ok = ok && (fsync(f->fd) == 0 || logits_file_fail(f, e));
    ok = ok && (!names || safe_file_rename(f->beside, f->path, f->replace) || logits_file_fail(f, e));
    if (names && !ok) unlink(f->beside);
    close(f->fd); /* it is locked until it has its name */
    free(f->beside);
    f->beside = NULL;
    return ok;
}
