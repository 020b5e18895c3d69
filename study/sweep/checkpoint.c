/* Finished layers of a model that is run over a text, kept for a run that is stopped; checkpoint.c has the format.
 *
 *     missing --open--> empty --begin, hidden states, add--> layer 1 --begin, hidden states, add--> layer 2 ...
 *        ^                                              |                                --all done--> removed
 *        +------ header or hidden states do not fit (3, 4) ------+
 *
 *  1. Layers use the two slots of a stream in turn. So while layer n's hidden states are written into one, those
 *     that layer n - 1 left stay in the other: a kill at any moment leaves a whole pair of hidden states and record.
 *  2. A record is written when the hidden states of its layer are synced (checkpoint_add). It holds their checksums.
 *  3. A checkpoint is continued only if its header is the run's: build, model, tokens, settings that decide
 *     bytes. It does not hold the number of threads or ranks, or the memory, on which nothing depends.
 *  4. States are compared with the last record's checksums before they are used. If they differ the run
 *     starts afresh: older ones may be overwritten already.
 *  5. Records are read in order up to the first that is torn or missing; what is behind it does not count.
 *  6. A file that cannot be read says nothing about the layers: it stays, and the run fails.
 */
#include "study/sweep/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/safe_file.h"
#include "base/units.h"

enum { HEADER_ROOM = 4096, BEGUN_AT = 2048 };
static const char MAGIC[8] = {'G', 'Q', 'S', 'T', 'A', 'T', '0', '3'};
static const char SUFFIX[] = ".gquant-states";

/* Followed by a checksum of each stream's hidden states, 0 where it has none, and the caller's bytes. */
typedef struct record {
    uint64_t mark; /* number of the layer, and one */
    uint64_t size; /* of what follows */
    uint32_t crc;  /* of that */
    uint32_t header_crc;
} record;

bool checkpoint_fuses(void) {
    const char *isa = gq_isa();
    return isa && strcmp(isa, "x86-64-v2") != 0 && strcmp(isa, "generic") != 0;
}

void checkpoint_seal(checkpoint_header *h) {
    memcpy(h->magic, MAGIC, sizeof h->magic);
    h->fused = checkpoint_fuses();
    h->crc = checksum_add(0, h, offsetof(checkpoint_header, crc));
}

uint64_t checkpoint_slots(void) { return HEADER_ROOM; }
static uint64_t all_slots(uint32_t streams, uint64_t slot) { return mul_sat(2 * (uint64_t)streams, slot); }
static uint64_t first_record(const checkpoint *c) {
    return add_sat(HEADER_ROOM, all_slots(c->streams, c->slot));
}
static uint64_t sums_size(const checkpoint *c) { return c->streams * sizeof(uint64_t); }
uint64_t checkpoint_bytes(const checkpoint_header *h, uint64_t records) {
    return add_sat(HEADER_ROOM, add_sat(all_slots(h->streams, h->slot), records));
}

static bool checkpoint_fail(const checkpoint *c, const char *what, gq_error *e) {
    return gq_fail(e, "cannot %s %s, which holds the finished layers: %s", what, c->path,
                   safe_file_error(errno));
}

static bool checkpoint_fail_read(const checkpoint *c, gq_error *e) {
    return gq_fail(e,
                   "cannot read %s, which holds the finished layers: %s; try again, or remove it to start "
                   "afresh",
                   c->path, safe_file_error(errno));
}

/* ---- reading ---- */

/* A question about the file has three answers. A function stores whether it holds, and returns true; it
 * returns false where memory or a read failed. That says nothing about the file, which then must stay. */

static const char DAMAGED[] = "its file is damaged";

static bool checkpoint_read_header(int fd, checkpoint_header *h, bool *sound) {
    if (!safe_file_try_read(fd, 0, h, sizeof *h, sound)) return false;
    *sound = *sound && memcmp(h->magic, MAGIC, sizeof MAGIC) == 0 &&
             h->crc == checksum_add(0, h, offsetof(checkpoint_header, crc));
    return true;
}

static const char *checkpoint_compare_headers(const checkpoint_header *found,
                                              const checkpoint_header *wanted) {
    if (memcmp(found->build, wanted->build, sizeof found->build) != 0)
        return "it was made by another version or build of gquant";
    if (found->times != wanted->times || found->content != wanted->content)
        return "it was of another model, or the model has changed since";
    if (memcmp(found, wanted, sizeof *found) != 0) return "its text or its options were different";
    return NULL;
}

/* *why: the file is not one of this run; NULL: it is. */
static bool checkpoint_mismatch(int fd, const checkpoint_header *wanted, const char **why) {
    checkpoint_header found;
    bool sound;
    if (!checkpoint_read_header(fd, &found, &sound)) return false;
    *why = sound ? checkpoint_compare_headers(&found, wanted) : DAMAGED;
    return true;
}

static bool checkpoint_has_record(const checkpoint *c, uint64_t at, uint64_t file_size, const record *r) {
    return r->header_crc == checksum_add(0, r, offsetof(record, header_crc)) && r->mark > 0 &&
           r->size >= sums_size(c) && r->size <= file_size && at + sizeof *r <= file_size - r->size;
}

/* Reads the record at `at` and what follows it. *bytes: malloc'ed; NULL: there is none, or it is torn. */
static bool checkpoint_read_record(const checkpoint *c, uint64_t at, uint64_t file_size, record *r,
                                   uint8_t **bytes, gq_error *e) {
    bool whole;
    *bytes = NULL;
    if (!safe_file_try_read(c->fd, at, r, sizeof *r, &whole)) return checkpoint_fail_read(c, e);
    if (!whole || !checkpoint_has_record(c, at, file_size, r)) return true;
    uint8_t *rest = malloc(r->size ? r->size : 1);
    if (!rest) return gq_fail_memory(e, r->size);
    bool ok = safe_file_try_read(c->fd, at + sizeof *r, rest, r->size, &whole) || checkpoint_fail_read(c, e);
    if (ok && whole && r->crc == checksum_add(0, rest, r->size))
        *bytes = rest;
    else
        free(rest);
    return ok;
}

static bool slot_holds(const checkpoint *c, uint64_t at, uint64_t sum, bool *holds, gq_error *e) {
    uint32_t found = 0;
    if (!safe_file_sum(c->fd, at, c->slot, &found, holds)) return checkpoint_fail_read(c, e);
    *holds = *holds && found == (uint32_t)sum;
    return true;
}

/* Whether the hidden states behind the last layer, whose record is at `at`, are those that it wrote. */
static bool hidden_states_hold(const checkpoint *c, uint64_t at, bool *hold, gq_error *e) {
    *hold = true;
    for (uint32_t i = 0; *hold && i < c->streams; i++) {
        uint64_t sum, slot = 2 * (uint64_t)i + c->finished % 2;
        if (!safe_file_try_read(c->fd, at + sizeof(record) + i * sizeof sum, &sum, sizeof sum, hold))
            return checkpoint_fail_read(c, e);
        if (*hold && sum != 0 && !slot_holds(c, HEADER_ROOM + slot * c->slot, sum, hold, e)) return false;
    }
    return true;
}

/* Goes through the whole records from the first one on. *last: offset of the last one. */
static bool checkpoint_count_records(checkpoint *c, uint64_t file_size, uint64_t *last, gq_error *e) {
    for (;;) {
        record r;
        uint8_t *bytes;
        if (!checkpoint_read_record(c, c->end, file_size, &r, &bytes, e)) return false;
        bool is_next = bytes && r.mark == c->finished + 1;
        free(bytes);
        if (!is_next) return true;
        *last = c->end, c->end += sizeof r + r.size, c->finished++;
    }
}

/* Counts the finished layers. A layer that has been begun overwrites the hidden states of the one before the last:
 * where the last one's record is not whole any more nothing is left to continue from. */
static bool count_finished(checkpoint *c, gq_error *e) {
    struct stat st;
    uint64_t begun = 0, last = 0;
    bool there, hold = true;
    c->finished = 0, c->end = first_record(c);
    if (fstat(c->fd, &st) != 0) return checkpoint_fail_read(c, e);
    if ((uint64_t)st.st_size < c->end) return true;
    if (!safe_file_try_read(c->fd, BEGUN_AT, &begun, sizeof begun, &there)) return checkpoint_fail_read(c, e);
    if (!there) return true;
    if (!checkpoint_count_records(c, (uint64_t)st.st_size, &last, e)) return false;
    if (c->finished && !hidden_states_hold(c, last, &hold, e)) return false;
    if (begun > c->finished + 1 || !hold) c->why = DAMAGED, c->finished = 0;
    return true;
}

/* Whether the checkpoint can be continued; ->why says why not. A checkpoint that cannot be read is left
 * alone, so that nobody removes it. */
static bool can_go_on(checkpoint *c, const checkpoint_header *h, bool *can, gq_error *e) {
    bool ok = checkpoint_mismatch(c->fd, h, &c->why) || checkpoint_fail_read(c, e);
    ok = ok && (c->why || count_finished(c, e));
    *can = ok && !c->why;
    if (ok) return true;
    close(c->fd);
    c->fd = -1, c->finished = 0;
    return false;
}

uint8_t *checkpoint_next(const checkpoint *c, uint64_t *at, uint64_t *n, gq_error *e) {
    record r;
    uint8_t *bytes;
    if (*at == 0) *at = first_record(c);
    if (!checkpoint_read_record(c, *at, c->end, &r, &bytes, e)) return NULL;
    if (!bytes) {
        gq_fail(e, "%s: a layer's record is damaged; remove this file and start again", c->path);
        return NULL;
    }
    *at += sizeof r + r.size, *n = r.size - sums_size(c);
    return memmove(bytes, bytes + sums_size(c), *n);
}

/* ---- opening ---- */

char *checkpoint_path(const char *out) { return safe_file_beside(out, SUFFIX); }

static bool checkpoint_prepare(checkpoint *c, const char *out, const checkpoint_header *h, gq_error *e) {
    *c = (checkpoint){.fd = -1, .slot = h->slot, .streams = h->streams, .path = checkpoint_path(out)};
    return c->path || gq_fail_memory(e, strlen(out) + sizeof SUFFIX);
}

bool checkpoint_peek(checkpoint *c, const char *out, const checkpoint_header *h, gq_error *e) {
    bool can;
    if (!checkpoint_prepare(c, out, h, e)) return false;
    c->fd = safe_file_open(c->path);
    return c->fd < 0 || can_go_on(c, h, &can, e);
}

static bool checkpoint_lock(checkpoint *c, gq_error *e) {
    if (safe_file_lock(c->fd, SAFE_FILE_ALONE) && safe_file_still_there(c->fd, c->path)) return true;
    close(c->fd);
    c->fd = -1; /* not ours to remove */
    return gq_fail(e, "another process is writing this output (it locks %s); wait until it is done", c->path);
}

static bool lock_old(checkpoint *c, gq_error *e) {
    c->fd = safe_file_open(c->path);
    if (c->fd < 0) return errno == ENOENT || checkpoint_fail(c, "open", e);
    return checkpoint_lock(c, e);
}

static bool checkpoint_reserve(checkpoint *c, uint64_t bytes, gq_error *e) {
    struct statvfs fs;
    char needed[UNITS_TEXT_BYTES], available[UNITS_TEXT_BYTES];
    bool is_known = fstatvfs(c->fd, &fs) == 0;
    uint64_t free_bytes = is_known ? (uint64_t)fs.f_bavail * fs.f_frsize : UINT64_MAX;
    if (bytes <= free_bytes && safe_file_reserve(c->fd, bytes)) return true;
    int error = bytes > free_bytes ? ENOSPC : errno;
    units_compare_files(needed, bytes, available, free_bytes);
    return gq_fail(e,
                   "cannot make %s for the hidden states of all tokens: it needs %s and %s are free (%s); "
                   "fewer tokens need less",
                   c->path, needed, is_known ? available : "too few", strerror(error));
}

static bool checkpoint_create(checkpoint *c, const checkpoint_header *h, uint64_t bytes, gq_error *e) {
    if (c->fd >= 0) unlink(c->path), close(c->fd); /* while it is locked: it is nobody else's */
    c->fd = safe_file_create(c->path);
    if (c->fd < 0) return checkpoint_fail(c, "make", e);
    if (!checkpoint_lock(c, e)) return false;
    if (checkpoint_reserve(c, bytes, e) &&
        (safe_file_write(c->fd, 0, h, sizeof *h) || checkpoint_fail(c, "write", e)))
        return true;
    unlink(c->path);
    return false;
}

bool checkpoint_open(checkpoint *c, const char *out, const checkpoint_header *h, uint64_t records,
                     gq_error *e) {
    uint64_t bytes = checkpoint_bytes(h, records);
    bool can = false;
    if (!checkpoint_prepare(c, out, h, e) || !safe_file_may_grow(c->path, bytes, e) || !lock_old(c, e))
        return false;
    if (c->fd >= 0 && !can_go_on(c, h, &can, e)) return false;
    if (can) return true;
    c->end = first_record(c);
    return checkpoint_create(c, h, bytes, e);
}

bool checkpoint_open_old(checkpoint *c, const char *out, const checkpoint_header *h, gq_error *e) {
    bool can;
    return checkpoint_prepare(c, out, h, e) && lock_old(c, e) && (c->fd < 0 || can_go_on(c, h, &can, e));
}

bool checkpoint_join(checkpoint *c, const char *out, const checkpoint_header *h, size_t finished,
                     gq_error *e) {
    const char *why;
    if (!checkpoint_prepare(c, out, h, e)) return false;
    c->fd = safe_file_open(c->path);
    if (c->fd < 0)
        return gq_fail(e,
                       "cannot open %s, which rank 0 has made: %s; all ranks need one folder that they share",
                       c->path, safe_file_error(errno));
    if (!checkpoint_mismatch(c->fd, h, &why)) return checkpoint_fail_read(c, e);
    if (why) return gq_fail(e, "%s is not the file that another rank has opened: %s", c->path, why);
    c->finished = finished;
    return true;
}

void checkpoint_close(checkpoint *c) {
    if (c->fd >= 0) close(c->fd);
    free(c->path);
    *c = (checkpoint){.fd = -1};
}

void checkpoint_remove(const checkpoint *c) {
    if (c->fd >= 0 && safe_file_still_there(c->fd, c->path)) unlink(c->path);
}

/* ---- what is left ---- */

static void checkpoint_remove_left(const char *out, bool (*is_left)(int fd, const void *what),
                                   const void *what) {
    char *path = checkpoint_path(out);
    int fd = path ? safe_file_open(path) : -1;
    if (fd >= 0 && is_left(fd, what) && safe_file_lock(fd, SAFE_FILE_ALONE) &&
        safe_file_still_there(fd, path))
        unlink(path);
    if (fd >= 0) close(fd);
    free(path);
}

static bool is_of_header(int fd, const void *h) {
    const char *why;
    return checkpoint_mismatch(fd, h, &why) && !why;
}
void checkpoint_clean(const char *out, const checkpoint_header *h) {
    checkpoint_remove_left(out, is_of_header, h);
}

static bool is_of_kind(int fd, const void *kind) {
    checkpoint_header found;
    bool sound;
    return checkpoint_read_header(fd, &found, &sound) && sound &&
           found.kind == *(const checkpoint_kind *)kind;
}
void checkpoint_clean_kind(const char *out, checkpoint_kind kind) {
    checkpoint_remove_left(out, is_of_kind, &kind);
}

/* ---- writing ---- */

bool checkpoint_begin(const checkpoint *c, gq_error *e) {
    uint64_t begun = c->finished + 1;
    return safe_file_write(c->fd, BEGUN_AT, &begun, sizeof begun) || checkpoint_fail(c, "write", e);
}

bool checkpoint_sync(const checkpoint *c, gq_error *e) {
    return fdatasync(c->fd) == 0 || checkpoint_fail(c, "write", e);
}

bool checkpoint_add(checkpoint *c, const uint64_t *sums, const void *bytes, uint64_t n, gq_error *e) {
    uint64_t before = sums_size(c), size = before + n;
    uint8_t *all = calloc(1, size);
    if (!all) return gq_fail_memory(e, size);
    if (sums) memcpy(all, sums, before);
    if (n) memcpy(all + before, bytes, n);
    record r = {.mark = c->finished + 1, .size = size, .crc = checksum_add(0, all, size)};
    r.header_crc = checksum_add(0, &r, offsetof(record, header_crc));
    bool ok = fdatasync(c->fd) == 0 && safe_file_write(c->fd, c->end + sizeof r, all, size) &&
              safe_file_write(c->fd, c->end, &r, sizeof r) && fdatasync(c->fd) == 0;
    if (!ok) checkpoint_fail(c, "write", e);
    free(all);
    if (ok) c->end += sizeof r + size, c->finished++;
    return ok;
}
