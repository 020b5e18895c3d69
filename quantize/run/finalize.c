/* Gives several finished files their names in such a way that a kill at any moment can be repaired:
 *
 *     files whole, synced --record synced--> RECORDED --rename each--> all have names --record removed--> done,
 *                                              |  ^                                                  then journals
 *                                              +--+ a kill: the same command continues renaming
 *
 *  1. The record (inode, size and time of each file) is written when all files are whole and on disk under
 *     their temporary names, and not before.
 *  2. As long as there is a sound record, each file has its temporary name or its own: a process that
 *     finds the record only has to continue renaming.
 *  3. A file is ours if inode, size and time are those recorded, whichever of the two names it has. One that
 *     is not is never renamed, and replaced only where the plan says so.
 *  4. A record that is damaged, of another plan, or of files that are gone counts as none and is removed. One
 *     that cannot be read stays.
 *  5. Journals outlive the record: without it, they alone say that the files are ours.
 *  6. The first shard of a set leads to the others. Of an older set it loses its name first, of the new one
 *     it gets its name last, so it never leads to shards of two sets.
 *
 * A single file needs no record: output_give_name. */
#include "quantize/run/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/safe_file.h"

/* The record is a journal_header, a finalize_file for each file, and a CRC of both. */

#define FINALIZE_SUFFIX ".gquant-names"

static bool is_at(const char *path, const finalize_file *f) {
    struct stat st;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a record that is read has room for its files */
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == f->inode &&
           (uint64_t)st.st_size == f->size && st.st_mtim.tv_sec == f->seconds &&
           st.st_mtim.tv_nsec == f->nanoseconds;
}

static uint32_t record_crc(const journal_header *header, const finalize_file *files, size_t n) {
    return checksum_add(checksum_add(0, header, sizeof *header), files, n * sizeof *files);
}

/* *is: the record is of this plan, and not damaged. False and errno: reading failed. */
static bool read_record(const finalize *r, bool *is) {
    journal_header found, wanted = journal_header_of(r->set->plan, 0, 0);
    size_t n = r->set->n, bytes = n * sizeof *r->files;
    uint32_t sum = 0;
    bool ok = safe_file_try_read(r->fd, 0, &found, sizeof found, is);
    *is = *is && !journal_mismatch(&found, &wanted);
    if (ok && *is) ok = safe_file_try_read(r->fd, sizeof found, r->files, bytes, is);
    if (ok && *is) ok = safe_file_try_read(r->fd, sizeof found + bytes, &sum, sizeof sum, is);
    *is = *is && sum == record_crc(&found, r->files, n);
    return ok;
}

/* Whether every file is still there, under one of its names. */
static bool all_there(const finalize *r) {
    for (size_t i = 0; i < r->set->n; i++) {
        const plan_shard *shard = r->set->files[i].shard;
        if (!is_at(shard->path, &r->files[i]) && !is_at(shard->temporary, &r->files[i])) return false;
    }
    return true;
}

/* Sets ->whole by an open record. One that cannot be read says nothing, and has to stay. */
static bool finalize_read_record(finalize *r, gq_error *e) {
    bool is;
    if (!read_record(r, &is))
        return gq_fail(e, "cannot read %s, the record that all output files are complete: %s; try again",
                       r->path, safe_file_error(errno));
    r->whole = is && all_there(r);
    return true;
}

static bool finalize_new(finalize *r, const output_set *set, gq_error *e) {
    const char *first = set->plan->outputs[0].shards[0].path;
    *r = (finalize){.set = set, .fd = -1};
    r->path = safe_file_beside(first, FINALIZE_SUFFIX);
    r->files = calloc(set->n, sizeof *r->files);
    return (r->path && r->files) || gq_fail_memory(e, strlen(first) + set->n * sizeof *r->files);
}

void finalize_close(finalize *r) {
    if (r->path && r->fd >= 0) close(r->fd); /* a zeroed one is closed already */
    free(r->path), free(r->files);
    *r = (finalize){.fd = -1};
}

static bool name_is_free(const finalize *r, const gq_options *options, gq_error *e) {
    const gq_plan *plan = r->set->plan;
    if (!plan_check_beside(plan, options, r->path, e)) return false;
    for (size_t i = 0; i < r->set->n; i++)
        if (!strcmp(r->set->files[i].shard->path, r->path))
            return gq_fail_usage(
                e, "the output %s would overwrite a file that gquant writes beside %s; choose another name",
                r->path, plan->outputs[0].path);
    return true;
}

bool finalize_probe(const gq_plan *plan, const gq_options *options, finalize_left *left, gq_error *e) {
    output_set set = {.plan = plan};
    finalize r = {.fd = -1};
    bool ok = output_new(&set, plan, e) && finalize_new(&r, &set, e) && name_is_free(&r, options, e);
    if (ok) r.fd = safe_file_open(r.path);
    if (ok && r.fd >= 0) ok = finalize_read_record(&r, e);
    *left = (finalize_left){.whole = ok && r.whole};
    if (left->whole) {
        left->named = calloc(set.n, sizeof *left->named);
        ok = left->named || gq_fail_memory(e, set.n * sizeof *left->named);
    }
    for (size_t i = 0; left->named && i < set.n; i++)
        left->named[i] = is_at(set.files[i].shard->path, &r.files[i]);
    finalize_close(&r);
    output_free(&set);
    return ok;
}

static bool fail_record(const finalize *r, const char *what, gq_error *e) {
    return gq_fail(e, "cannot %s %s: %s", what, r->path, safe_file_error(errno));
}

bool finalize_open(finalize *r, const output_set *set, gq_error *e) {
    struct stat st;
    if (!finalize_new(r, set, e)) return false;
    r->fd = safe_file_open(r->path);
    if (r->fd < 0) return errno == ENOENT || fail_record(r, "open", e);
    if (!safe_file_lock(r->fd, SAFE_FILE_ALONE))
        return gq_fail(e, "another process is renaming %s (it locks %s); wait until it is done",
                       set->plan->outputs[0].path, r->path);
    if (!finalize_read_record(r, e)) return false;
    if (r->whole) return true;
    bool gone = fstat(r->fd, &st) == 0 && st.st_nlink == 0; /* its owner has just finished */
    if (!gone && unlink(r->path) != 0) return fail_record(r, "remove", e);
    close(r->fd);
    r->fd = -1;
    return true;
}

/* Fails where a file has appeared under an output's name and must not be replaced: before the first name is
 * given, not after it. */
static bool places_are_free(const output_set *set, gq_error *e) {
    struct stat st;
    for (size_t i = 0; i < set->n && !set->plan->force; i++)
        if (lstat(set->files[i].shard->path, &st) == 0)
            return gq_fail(e,
                           "%s was created by another process during this run; rename or remove it and "
                           "repeat the command",
                           set->files[i].shard->path);
    return true;
}

static bool write_record(const finalize *r) {
    journal_header header = journal_header_of(r->set->plan, 0, 0);
    size_t n = r->set->n, bytes = n * sizeof *r->files;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        if (fstat(r->set->files[i].fd, &st) != 0) return false;
        r->files[i] = (finalize_file){.inode = st.st_ino,
                                      .size = (uint64_t)st.st_size,
                                      .seconds = st.st_mtim.tv_sec,
                                      .nanoseconds = st.st_mtim.tv_nsec};
    }
    uint32_t sum = record_crc(&header, r->files, n);
    return safe_file_write(r->fd, 0, &header, sizeof header) &&
           safe_file_write(r->fd, sizeof header, r->files, bytes) &&
           safe_file_write(r->fd, sizeof header + bytes, &sum, sizeof sum) && fsync(r->fd) == 0;
}

bool finalize_record(finalize *r, gq_error *e) {
    uint64_t size = sizeof(journal_header) + r->set->n * sizeof *r->files + sizeof(uint32_t);
    if (!places_are_free(r->set, e) || !safe_file_may_grow(r->path, size, e)) return false;
    r->fd = safe_file_create(r->path);
    if (r->fd < 0) return fail_record(r, "make", e);
    safe_file_lock(r->fd, SAFE_FILE_ALONE);
    if (write_record(r) || fail_record(r, "write", e)) r->whole = safe_file_sync_folder(r->path, e);
    if (r->whole) return true;
    unlink(r->path);
    close(r->fd);
    r->fd = -1;
    return false;
}

/* ---- the names ---- */

static bool finalize_rename(const finalize *r, size_t i, gq_error *e) {
    const char *from = r->set->files[i].shard->temporary, *to = r->set->files[i].shard->path;
    for (size_t k = 0; k < r->set->n; k++)
        if (k != i && is_at(to, &r->files[k]))
            return gq_fail(
                e, "cannot rename %s to %s: another output exists whose name is the same to this file system",
                from, to);
    if (is_at(to, &r->files[i])) {
        /* If names are given by linking, a kill may have left both names. */
        return !is_at(from, &r->files[i]) || unlink(from) == 0 ||
               gq_fail(e, "cannot remove %s: %s", from, safe_file_error(errno));
    }
    if (!is_at(from, &r->files[i]))
        return gq_fail(e, "cannot rename %s to %s: it was removed or replaced since it was written", from,
                       to);
    return safe_file_rename(from, to, r->set->plan->force) ||
           gq_fail(e, "cannot rename %s to %s: %s", from, to, safe_file_error(errno));
}

/* Removes the first shard of an older set, before any other of its shards is replaced. */
static bool take_name(const finalize *r, size_t i, gq_error *e) {
    const char *path = r->set->files[i].shard->path;
    struct stat st;
    if (!r->set->plan->force || is_at(path, &r->files[i]) || lstat(path, &st) != 0) return true;
    if (unlink(path) != 0) return gq_fail(e, "cannot replace %s: %s", path, safe_file_error(errno));
    return safe_file_sync_folder(path, e);
}

static bool give_shards(const finalize *r, size_t first, uint32_t n, gq_error *e) {
    const char *path = r->set->files[first].shard->path;
    if (n > 1 && !take_name(r, first, e)) return false;
    for (uint32_t s = n - 1; s > 0; s--)
        if (!finalize_rename(r, first + s, e)) return false;
    return (n == 1 || safe_file_sync_folder(path, e)) && finalize_rename(r, first, e) &&
           safe_file_sync_folder(path, e);
}

bool finalize_rename_all(const finalize *r, gq_error *e) {
    const gq_plan *plan = r->set->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!give_shards(r, r->set->first[o], plan->outputs[o].n_shards, e)) return false;
    return true;
}

void finalize_clean(const char *output) {
    char *path = safe_file_beside(output, FINALIZE_SUFFIX);
    if (path) safe_file_clean(path);
    free(path);
}

bool finalize_remove(const finalize *r) {
    if (r->fd < 0) return true;
    /* The record is removed before the journals: after a power cut it must not come back without them. */
    return unlink(r->path) == 0 && safe_file_sync_folder(r->path, NULL);
}
