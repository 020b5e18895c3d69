/* The files of all outputs while they are made: temporary files beside their targets, opened once, to whose
 * fixed offsets any thread may write. A lock marks the process at work: one process holds it alone, or the parts
 * of a job share it. A file is locked first; then it is checked that the name still belongs to it, as another
 * process may have renamed or removed it in between. A file that another process holds is neither written nor
 * removed. Disk space for all files is set aside before the first write, so that a disk that is too small is
 * noticed early. The headers are written last, and everything is synced. A single file then gets its name
 * here; for several there is finalize.c. System calls that need care are in base/safe_file.h. */
#include "quantize/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/safe_file.h"
#include "base/units.h"

/* ---- opening ---- */

static bool fail_open(const output_file *f, gq_error *e) {
    const char *why = errno == EPERM || errno == ELOOP
                          ? "exists and was not left by an earlier run; remove it"
                          : safe_file_error(errno);
    return gq_fail(e, "cannot write %s: %s: %s", f->shard->path, f->shard->temporary, why);
}

static bool still_there(const output_file *f) { return safe_file_still_there(f->fd, f->shard->temporary); }

static void close_file(output_file *f) {
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
}

/* Fails as another process holds the file, and closes it, so that it is not removed either. */
static bool fail_held(output_file *f, gq_error *e) {
    close_file(f);
    return gq_fail(e, "another process is writing %s (it locks %s); wait until it is done", f->shard->path,
                   f->shard->temporary);
}

static bool lock_file(output_file *f, safe_file_sharing sharing, gq_error *e) {
    return safe_file_lock(f->fd, sharing) || fail_held(f, e);
}

bool output_new(output_set *set, const gq_plan *plan, gq_error *e) {
    *set = (output_set){.plan = plan};
    set->first = calloc(plan->n_outputs, sizeof *set->first);
    if (!set->first) return gq_fail_memory(e, plan->n_outputs * sizeof *set->first);
    size_t n = 0;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        set->first[o] = n;
        n += plan->outputs[o].n_shards;
    }
    set->files = calloc(n, sizeof *set->files);
    if (!set->files) return gq_fail_memory(e, n * sizeof *set->files);
    set->n = n;
    for (size_t o = 0, i = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++)
            set->files[i++] = (output_file){.fd = -1, .shard = &plan->outputs[o].shards[s]};
    return true;
}

void output_free(output_set *set) {
    for (size_t i = 0; i < set->n; i++) close_file(&set->files[i]);
    free(set->files), free(set->first);
}

bool output_all_may_grow(const output_set *set, gq_error *e) {
    for (size_t i = 0; i < set->n; i++)
        if (!safe_file_may_grow(set->files[i].shard->path, set->files[i].shard->size, e)) return false;
    return true;
}

/* File systems that ignore case, or how letters with accents are composed, take two names for one file; only
 * they know which. Fails when the i-th name leads to a file that was opened for one before. */
static bool check_own_name(const output_set *set, size_t i, gq_error *e) {
    const plan_shard *shard = set->files[i].shard;
    struct stat st;
    if (lstat(shard->temporary, &st) != 0) return true;
    for (size_t k = 0; k < i; k++)
        if (set->files[k].fd >= 0 && safe_file_still_there(set->files[k].fd, shard->temporary))
            return gq_fail(
                e,
                "cannot write both %s and %s: these names are the same to this file system; rename an output",
                set->files[k].shard->path, shard->path);
    return true;
}

bool output_open_old(output_set *set, bool *all, gq_error *e) {
    *all = true;
    for (size_t i = 0; i < set->n; i++) {
        output_file *f = &set->files[i];
        struct stat st;
        if (!check_own_name(set, i, e)) return false;
        f->fd = safe_file_open(f->shard->temporary);
        if (f->fd < 0 && errno != ENOENT) return fail_open(f, e);
        if (f->fd >= 0 && !lock_file(f, SAFE_FILE_ALONE, e)) return false;
        if (f->fd >= 0 && !still_there(f)) close_file(f);
        if (f->fd < 0 || fstat(f->fd, &st) != 0 || (uint64_t)st.st_size != f->shard->size) *all = false;
    }
    return true;
}

bool output_create(output_set *set, gq_error *e) {
    for (size_t i = 0; i < set->n; i++) {
        output_file *f = &set->files[i];
        if (!check_own_name(set, i, e)) return false;
        if (f->fd >= 0 && unlink(f->shard->temporary) != 0 && errno != ENOENT) return fail_open(f, e);
        close_file(f);
        f->fd = safe_file_create(f->shard->temporary);
        if (f->fd < 0 && errno == EEXIST) return fail_held(f, e);
        if (f->fd < 0) return fail_open(f, e);
        f->fresh = true;
        if (!lock_file(f, SAFE_FILE_ALONE, e)) return false;
        /* Another process may have locked it before us, and begun anew. */
        if (!still_there(f)) return fail_held(f, e);
    }
    return true;
}

/* Opens or makes a file. 1: done; -1: failed; 0: another process was faster in either direction, so try
 * again. */
static int open_or_create(output_file *f, gq_error *e) {
    f->fd = safe_file_open(f->shard->temporary);
    if (f->fd < 0 && errno == ENOENT) {
        f->fd = safe_file_create(f->shard->temporary);
        if (f->fd < 0 && errno == EEXIST) return 0;
    }
    if (f->fd < 0) return fail_open(f, e), -1;
    if (!lock_file(f, SAFE_FILE_SHARED, e)) return -1;
    if (still_there(f)) return 1;
    close_file(f);
    return 0;
}

/* Checks a file's size. 1: it fits; -1: failed; 0: it was removed, so try again. A file that is too long was
 * left by another plan, and is removed unless a process holds it. One that is too short may be growing this
 * very moment, as another part sets its space aside. */
static int fits_plan(output_file *f, gq_error *e) {
    struct stat st;
    if (fstat(f->fd, &st) != 0) return fail_open(f, e), -1;
    if ((uint64_t)st.st_size <= f->shard->size) return 1;
    if (!safe_file_lock_alone(f->fd)) {
        gq_fail(e, "%s has %llu bytes, expected %llu: parts of another plan are writing it",
                f->shard->temporary, LLU(st.st_size), LLU(f->shard->size));
        return -1;
    }
    if (unlink(f->shard->temporary) != 0) return fail_open(f, e), -1;
    close_file(f);
    return 0;
}

bool output_open_shared(output_set *set, gq_error *e) {
    for (size_t i = 0; i < set->n; i++) {
        int done = 0;
        if (!check_own_name(set, i, e)) return false;
        for (int tries = 0; done == 0 && tries < 100; tries++) {
            done = open_or_create(&set->files[i], e);
            if (done > 0) done = fits_plan(&set->files[i], e);
        }
        if (done < 0) return false;
        if (done == 0)
            return gq_fail(e, "%s appears and vanishes: another process is writing it; wait until it is done",
                           set->files[i].shard->temporary);
    }
    return true;
}

bool output_alone(const output_set *set) {
    for (size_t i = 0; i < set->n; i++)
        if (set->files[i].fd >= 0 && !safe_file_lock_alone(set->files[i].fd)) return false;
    return true;
}

/* ---- space ---- */

static bool fail_space(const output_file *f, int error, gq_error *e) {
    struct statvfs fs;
    char size[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];
    units_file(size, f->shard->size);
    if ((error != ENOSPC && error != EDQUOT) || fstatvfs(f->fd, &fs) != 0)
        return gq_fail(e, "cannot write %s: no room for its %s: %s", f->shard->path, size, strerror(error));
    units_compare_files(size, f->shard->size, available, (uint64_t)fs.f_bavail * fs.f_frsize);
    return gq_fail(e, "cannot write %s: it needs %s and %s are free (%s)", f->shard->path, size, available,
                   strerror(error));
}

/* Returns the bytes that a shard takes beyond those that its file on the disk holds already. */
static uint64_t missing_bytes(const plan_shard *shard, const struct stat *file) {
    uint64_t held = 512 * (uint64_t)file->st_blocks;
    return shard->size > held ? shard->size - held : 0;
}

/* Checks that all files on the file system of file i fit together. */
static bool enough_free(const output_set *set, size_t i, gq_error *e) {
    struct stat mine, st;
    struct statvfs fs;
    uint64_t need = 0;
    if (fstat(set->files[i].fd, &mine) != 0 || fstatvfs(set->files[i].fd, &fs) != 0) return true;
    for (size_t k = 0; k < set->n; k++) {
        if (fstat(set->files[k].fd, &st) != 0 || st.st_dev != mine.st_dev) continue;
        if (k < i) return true; /* looked at already */
        need += missing_bytes(set->files[k].shard, &st);
    }
    uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
    char needed[UNITS_TEXT_BYTES], free_bytes[UNITS_TEXT_BYTES];
    units_compare_files(needed, need, free_bytes, available);
    return need <= available || gq_fail(e, "cannot write %s: the output needs %s and %s are free",
                                        set->files[i].shard->path, needed, free_bytes);
}

uint64_t output_room(const char *path) {
    struct statvfs fs;
    uint64_t bytes = UINT64_MAX;
    char *folder = strdup(path);
    for (char *slash = folder; slash && bytes == UINT64_MAX;) {
        slash = strrchr(folder, '/');
        if (slash) slash[slash == folder] = 0;
        int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && fstatvfs(fd, &fs) == 0) bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        if (fd >= 0) close(fd);
        if (slash == folder) break;
    }
    free(folder);
    return bytes;
}

bool output_needs(const gq_plan *plan, uint64_t *bytes) {
    struct stat st;
    bool any = false;
    *bytes = 0;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++) {
            const plan_shard *shard = &plan->outputs[o].shards[s];
            if (!plan->force && stat(shard->path, &st) == 0) continue;
            any = true, *bytes += stat(shard->temporary, &st) == 0 ? missing_bytes(shard, &st) : shard->size;
        }
    return any;
}

bool output_reserve(output_set *set, gq_error *e) {
    for (size_t i = 0; i < set->n; i++)
        if (!enough_free(set, i, e)) return false;
    for (size_t i = 0; i < set->n; i++) {
        const output_file *f = &set->files[i];
        if (!safe_file_reserve(f->fd, f->shard->size)) return fail_space(f, errno, e);
    }
    return true;
}

/* ---- bytes ---- */

static const output_file *file_of(const output_set *set, size_t output, uint32_t shard) {
    return &set->files[set->first[output] + shard];
}

static bool write_all(const output_file *f, uint64_t offset, const void *bytes, size_t n, gq_error *e) {
    return safe_file_write(f->fd, offset, bytes, n) ||
           gq_fail(e, "cannot write %s: %s (%zu bytes at offset %llu of %s)", f->shard->path,
                   safe_file_error(errno), n, LLU(offset), f->shard->temporary);
}

bool output_write(const output_set *set, size_t output, uint32_t shard, uint64_t offset, const void *bytes,
                  size_t n, gq_error *e) {
    return write_all(file_of(set, output, shard), offset, bytes, n, e);
}

bool output_read(const output_set *set, size_t output, uint32_t shard, uint64_t offset, void *to, size_t n,
                 gq_error *e) {
    const output_file *f = file_of(set, output, shard);
    size_t done = gq_read_at(f->fd, offset, to, n);
    return done == n || gq_fail(e, "cannot read back %s: %s at offset %llu", f->shard->temporary,
                                errno ? safe_file_error(errno) : "it ends", LLU(offset + done));
}

bool output_sync(const output_set *set, gq_error *e) {
    for (size_t i = 0; i < set->n; i++)
        if (fdatasync(set->files[i].fd) != 0)
            return gq_fail(e, "cannot write %s: %s", set->files[i].shard->path, safe_file_error(errno));
    return true;
}

/* ---- closing ---- */

/* Puts the checksums that the run has found beside what the plan has written of an output's digests. */
static bool write_digests(const output_set *set, size_t o, const gq_results *results, gq_error *e) {
    const gq_plan *plan = set->plan;
    const plan_output *out = &plan->outputs[o];
    const uint64_t first = out->digests_at + GGUF_ARRAY_HEADER;
    if (!out->digests_at) return true;
    tensor_digest *digests = malloc((plan->n_tensors + 1) * sizeof *digests);
    if (!digests) return gq_fail_memory(e, plan->n_tensors * sizeof *digests);
    memcpy(digests, out->shards[0].header_data + first, plan->n_tensors * sizeof *digests);
    for (size_t i = 0; i < plan->n_tensors; i++) {
        if (digests[i].made_by) digests[i].source = results->sources[i];
        digests[i].bytes = results->losses[o * plan->n_tensors + i].crc32;
    }
    bool ok = output_write(set, o, 0, first, digests, plan->n_tensors * sizeof *digests, e);
    free(digests);
    uint32_t source = digest_of_sources(plan, results->sources);
    return ok && (!out->source_at || output_write(set, o, 0, out->source_at, &source, sizeof source, e));
}

/* All headers before the first sync: the disk then writes on in one go. */
bool output_complete(const output_set *set, const gq_results *results, gq_error *e) {
    for (size_t i = 0; i < set->n; i++) {
        const output_file *f = &set->files[i];
        if (!write_all(f, 0, f->shard->header_data, f->shard->header_size, e)) return false;
    }
    for (size_t o = 0; o < set->plan->n_outputs; o++)
        if (!write_digests(set, o, results, e)) return false;
    for (size_t i = 0; i < set->n; i++) {
        const output_file *f = &set->files[i];
        if (fsync(f->fd) != 0)
            return gq_fail(e, "cannot write %s: %s", f->shard->path, safe_file_error(errno));
    }
    return true;
}

bool output_give_name(output_set *set, gq_error *e) {
    output_file *f = &set->files[0];
    const char *from = f->shard->temporary, *to = f->shard->path;
    if (!still_there(f))
        return gq_fail(e, "cannot rename %s to %s: it was removed or replaced while it was written", from,
                       to);
    if (!safe_file_rename(from, to, set->plan->force))
        return gq_fail(e, "cannot rename %s to %s: %s", from, to, safe_file_error(errno));
    f->renamed = true;
    if (safe_file_sync_folder(to, e)) return true;
    /* A file that was replaced does not come back, so the new one, which is whole, stays. */
    if (!set->plan->force && rename(to, from) == 0) f->renamed = false;
    return false;
}

bool output_still_there(const output_set *set) {
    for (size_t i = 0; i < set->n; i++)
        if (set->files[i].fd < 0 || !still_there(&set->files[i])) return false;
    return true;
}

void output_remove(output_set *set, bool old) {
    for (size_t i = 0; i < set->n; i++) {
        const output_file *f = &set->files[i];
        if (f->fd >= 0 && (f->fresh || old) && !f->renamed && still_there(f)) unlink(f->shard->temporary);
    }
}
