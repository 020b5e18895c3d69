/* Reads and writes journals; run.h has the format. What holds:
 *
 *  1. A slot's place follows from its chunk's number, so slots can be written in any order and need no index.
 *  2. A slot is written after its chunk's bytes are safe on disk (the caller syncs them). The reverse does
 *     not hold: a chunk without a slot may be there, and is encoded again to the same bytes.
 *  3. A torn slot has a wrong CRC, an unwritten one reads as zeros, whose mark is 0: both count as not done.
 *  4. A journal is continued only if its header is the one that the plan would write: the same build, input,
 *     options, layout and part. Otherwise it is replaced, and a warning says why.
 *  5. A process is at work with a journal as long as it holds its lock, and only who holds the lock removes
 *     it.
 *  6. A journal that cannot be read says nothing about the work: it stays, and the run fails (unread).
 *
 *     missing --create--> empty --slots--> partly done --slots--> all done --outputs named--> removed
 *        ^                                     |
 *        +--------- header differs (4) ----------+
 *
 * The second half deals with all journals beside an output: those of other parts, which may be the work of
 * other people or machines, those that are left over when an output is whole, and what is said of them when a
 * plan is made. */
#include "quantize/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/safe_file.h"
#include "quantize/plan/rounding.h"

static const char MAGIC[8] = {'G', 'Q', 'J', 'R', 'N', 'L', '0', '2'};
static const char SUFFIX[] = ".gquant-journal";
_Static_assert(sizeof ".gquant-journal-1048576-of-1048576" - 1 <= SAFE_FILE_SUFFIX,
               "the name of any part fits");

/* A slot: chunk number + 1, the sums, a CRC of both. */
static size_t slot_size(size_t n_outputs) { return 8 + n_outputs * sizeof(chunk_sum) + 8; }

void journal_range(const gq_plan *plan, uint32_t part, uint32_t parts, uint64_t *begin, uint64_t *end) {
    uint64_t n = plan->chunks.n;
    *begin = 0, *end = n;
    if (parts == 0) return;
    /* n x part / parts without overflow */
    *begin = n / parts * (part - 1) + n % parts * (part - 1) / parts;
    *end = n / parts * part + n % parts * part / parts;
}

journal_header journal_header_of(const gq_plan *plan, uint32_t part, uint32_t parts) {
    journal_header h = {.identity = plan->identity, .part = part, .parts = parts};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    plan_build(h.build);
    h.outputs = (uint32_t)plan->n_outputs, h.slot = (uint32_t)slot_size(plan->n_outputs);
    h.crc = checksum_add(0, &h, offsetof(journal_header, crc));
    return h;
}

static const char *journal_output(const gq_plan *plan) { return plan->outputs[0].shards[0].path; }

static char *journal_path(const gq_plan *plan, uint32_t part, uint32_t parts) {
    char suffix[64];
    snprintf(suffix, sizeof suffix, parts ? "%s-%u-of-%u" : "%s", SUFFIX, part, parts);
    return safe_file_beside(journal_output(plan), suffix);
}

static bool journal_prepare(journal *j, const gq_plan *plan, uint32_t part, uint32_t parts, gq_error *e) {
    *j = (journal){.fd = -1, .part = part, .parts = parts, .n_outputs = plan->n_outputs};
    j->slot = slot_size(plan->n_outputs);
    journal_range(plan, part, parts, &j->begin, &j->end);
    j->path = journal_path(plan, part, parts);
    return j->path ? true : gq_fail_memory(e, strlen(plan->outputs[0].path) + 64);
}

static bool is_sound(const journal_header *h) {
    return memcmp(h->magic, MAGIC, sizeof MAGIC) == 0 &&
           h->crc == checksum_add(0, h, offsetof(journal_header, crc));
}

const char *journal_mismatch(const journal_header *found, const journal_header *wanted) {
    if (!is_sound(found)) return "its journal is damaged";
    if (memcmp(found->build, wanted->build, sizeof found->build) != 0)
        return "it was made by another version or build of gquant";
    if (found->identity.input != wanted->identity.input ||
        found->identity.content != wanted->identity.content)
        return "it had another input, or the input has changed since";
    if (memcmp(found, wanted, sizeof *found) != 0) return "its options were different";
    return NULL;
}

static bool journal_read_header(int fd, journal_header *h) { return safe_file_read(fd, 0, h, sizeof *h); }

static uint64_t slot_offset(const journal *j, uint64_t chunk_number) {
    return sizeof(journal_header) + (chunk_number - j->begin) * j->slot;
}

/* ---- opening and closing ---- */

static bool journal_fail(const journal *j, const char *what, gq_error *e) {
    return gq_fail(e, "cannot %s the journal %s: %s", what, j->path, safe_file_error(errno));
}

static bool journal_lock(journal *j, gq_error *e) {
    if (safe_file_lock(j->fd, SAFE_FILE_ALONE) && safe_file_still_there(j->fd, j->path)) return true;
    close(j->fd);
    j->fd = -1; /* not ours to remove */
    return gq_fail(e,
                   "another process is writing this part of the output (it locks %s); wait until it is done",
                   j->path);
}

static bool open_existing(journal *j, gq_error *e) {
    j->fd = safe_file_open(j->path);
    if (j->fd < 0) return errno == ENOENT || journal_fail(j, "open", e);
    return journal_lock(j, e);
}

static bool journal_create(journal *j, const journal_header *header, gq_error *e) {
    if (j->fd >= 0) unlink(j->path), close(j->fd); /* while this process holds its lock */
    j->fd = safe_file_create(j->path);
    if (j->fd < 0) return journal_fail(j, "make", e);
    return journal_lock(j, e) &&
           (safe_file_write(j->fd, 0, header, sizeof *header) || journal_fail(j, "write", e));
}

bool journal_open(journal *j, const gq_plan *plan, bool keep, gq_error *e) {
    journal_header found, wanted = journal_header_of(plan, plan->part, plan->parts);
    if (!journal_prepare(j, plan, plan->part, plan->parts, e) ||
        !safe_file_may_grow(j->path, slot_offset(j, j->end), e) || !open_existing(j, e))
        return false;
    if (keep && j->fd >= 0) {
        bool there;
        j->unread = !safe_file_try_read(j->fd, 0, &found, sizeof found, &there);
        if (j->unread)
            return gq_fail(e, "cannot read the journal %s: %s; try again, or remove it to start afresh",
                           j->path, safe_file_error(errno));
        j->resumed = there && !journal_mismatch(&found, &wanted);
    }
    return j->resumed || journal_create(j, &wanted, e);
}

bool journal_open_part(journal *j, const gq_plan *plan, uint32_t part, uint32_t parts, gq_error *e) {
    journal_header found, wanted = journal_header_of(plan, part, parts);
    if (!journal_prepare(j, plan, part, parts, e) || !open_existing(j, e)) return false;
    if (j->fd < 0)
        return gq_fail(e, "part %u of %u has not been started: there is no %s", part, parts, j->path);
    const char *why =
        journal_read_header(j->fd, &found) ? journal_mismatch(&found, &wanted) : "its journal is damaged";
    return !why || gq_fail(e, "part %u of %u cannot be used: %s", part, parts, why);
}

void journal_close(journal *j) {
    if (j->fd >= 0) close(j->fd);
    free(j->path);
    *j = (journal){.fd = -1};
}

void journal_remove(const journal *j) {
    if (j->fd >= 0 && safe_file_still_there(j->fd, j->path)) unlink(j->path);
}

/* ---- slots ---- */

/* Put a chunk's slot together (journal.slot bytes), to be written later. */
static void journal_fill(const journal *j, uint8_t *slot, uint64_t chunk_number, const chunk_sum *sums) {
    uint64_t mark = chunk_number + 1;
    memcpy(slot, &mark, 8);
    memcpy(slot + 8, sums, j->n_outputs * sizeof *sums);
    uint64_t sum = checksum_add(0, slot, j->slot - 8);
    memcpy(slot + j->slot - 8, &sum, 8);
}

bool journal_find(const journal *j, uint64_t chunk_number, chunk_sum *sums) {
    uint8_t slot[512]; /* of up to 12 outputs; more are read in one piece from the heap */
    uint8_t *at = j->slot <= sizeof slot ? slot : malloc(j->slot);
    uint64_t mark = 0, sum = 0;
    bool found = false;
    if (at && safe_file_read(j->fd, slot_offset(j, chunk_number), at, j->slot)) {
        memcpy(&mark, at, 8), memcpy(&sum, at + j->slot - 8, 8);
        found = mark == chunk_number + 1 && sum == checksum_add(0, at, j->slot - 8);
        if (found) memcpy(sums, at + 8, j->n_outputs * sizeof *sums);
    }
    if (at != slot) free(at);
    return found;
}

/* Write slots made by journal_fill, in any order, and make them safe. */
static bool journal_write(const journal *j, const uint8_t *slots, size_t n, gq_error *e) {
    for (size_t i = 0; i < n; i++, slots += j->slot) {
        uint64_t mark;
        memcpy(&mark, slots, 8);
        if (!safe_file_write(j->fd, slot_offset(j, mark - 1), slots, j->slot))
            return journal_fail(j, "write", e);
    }
    return fdatasync(j->fd) == 0 || journal_fail(j, "write", e);
}

/* ---- all journals of an output ---- */

/* Reads `text` and the decimal number behind it, and moves *at behind both. Seven digits at most: there are
 * up to 2^20 parts. */
static bool take_number(const char **at, const char *text, uint32_t *number) {
    size_t n = strlen(text);
    if (strncmp(*at, text, n) != 0) return false;
    size_t digits = strspn(*at + n, "0123456789");
    if (digits < 1 || digits > 7) return false;
    *number = (uint32_t)strtoul(*at + n, NULL, 10);
    *at += n + digits;
    return true;
}

/* Calls each(user, folder's descriptor, name, part, parts) for each journal beside an output. */
static bool for_each(const char *output,
                     void (*each)(void *user, int folder, const char *name, uint32_t part, uint32_t parts),
                     void *user, gq_error *e) {
    char *whole = safe_file_beside(output, SUFFIX), *folder = whole ? safe_file_folder(whole) : NULL;
    DIR *dir = folder ? opendir(folder) : NULL;
    bool ok = dir != NULL;
    if (!folder)
        gq_fail_memory(e, strlen(output) + 64);
    else if (!ok)
        gq_fail(e, "cannot list the folder %s to find journals: %s", folder, safe_file_error(errno));
    for (struct dirent *entry; ok && (entry = readdir(dir));) {
        const char *base = strrchr(whole, '/') ? strrchr(whole, '/') + 1 : whole, *rest = entry->d_name;
        uint32_t part = 0, parts = 0;
        if (strncmp(rest, base, strlen(base)) != 0) continue;
        rest += strlen(base);
        if (*rest == 0 || (take_number(&rest, "-", &part) && take_number(&rest, "-of-", &parts) &&
                           *rest == 0 && part >= 1 && part <= parts))
            each(user, dirfd(dir), entry->d_name, part, parts);
    }
    if (dir) closedir(dir);
    free(folder), free(whole);
    return ok;
}

/* Removes a journal that no process holds. user: points to the plan whose journals alone are removed; NULL:
 * any journal is. */
static void remove_one(void *user, int folder, const char *name, uint32_t part, uint32_t parts) {
    const gq_plan *const *only = user;
    journal_header found, wanted = {.part = 0};
    if (only) wanted = journal_header_of(*only, part, parts);
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return;
    bool is_left = !only || (journal_read_header(fd, &found) && !journal_mismatch(&found, &wanted));
    /* a process that holds the lock is at work with it, or has begun anew under its name */
    if (is_left && safe_file_lock(fd, SAFE_FILE_ALONE) && safe_file_still_in(fd, folder, name))
        unlinkat(folder, name, 0);
    close(fd);
}

void journal_remove_all(const char *output) { for_each(output, remove_one, NULL, NULL); }

void journal_clean(const gq_plan *plan) { for_each(journal_output(plan), remove_one, &plan, NULL); }

typedef struct parts_seen {
    const gq_plan *plan;
    uint32_t parts; /* 0: none */
    gq_error *e;
    bool failed;
} parts_seen;

static const char *why_unfit(const parts_seen *seen, int fd, uint32_t part, uint32_t parts) {
    journal_header found, wanted = journal_header_of(seen->plan, part, parts);
    if (parts != seen->parts) return "the work was cut into another number of parts";
    /* A journal that is damaged, or is being written just now, is left to the run of its part. */
    return fd >= 0 && journal_read_header(fd, &found) && is_sound(&found) ? journal_mismatch(&found, &wanted)
                                                                          : NULL;
}

/* Looks at the journal of another part. It may be the work of other people or machines, so it is neither
 * mixed with other work nor removed. */
static void look_at_part(void *user, int folder, const char *name, uint32_t part, uint32_t parts) {
    parts_seen *seen = user;
    const gq_plan *plan = seen->plan;
    if (parts == 0 || seen->failed || (part == plan->part && parts == plan->parts)) return;
    if (seen->parts == 0) seen->parts = plan->parts ? plan->parts : parts;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    const char *why = why_unfit(seen, fd, part, parts);
    if (fd >= 0) close(fd);
    if (!why) return;
    gq_fail(seen->e, "part %u of %u of %s was started, and %s; to start afresh remove %s*", part, parts,
            plan->outputs[0].path, why, plan->outputs[0].shards[0].temporary);
    seen->failed = true;
}

bool journal_count_parts(const gq_plan *plan, uint32_t *parts, gq_error *e) {
    parts_seen seen = {.plan = plan, .e = e};
    if (!for_each(journal_output(plan), look_at_part, &seen, e)) return false;
    *parts = seen.parts;
    return !seen.failed;
}

static void see_part(void *user, int folder, const char *name, uint32_t part, uint32_t parts) {
    bool *any = user;
    (void)folder, (void)name, (void)part;
    *any = *any || parts > 0;
}

bool journal_has_parts(const gq_plan *plan, bool *any, gq_error *e) {
    *any = false;
    return for_each(journal_output(plan), see_part, any, e);
}

typedef struct inputs_seen {
    const gq_plan *plan;
    const gq_options *options;
    gq_error *e;
    bool failed;
} inputs_seen;

static void look_for_input(void *user, int folder, const char *name, uint32_t part, uint32_t parts) {
    inputs_seen *seen = user;
    const char *out = seen->plan->outputs[0].shards[0].path, *slash = strrchr(out, '/');
    char *path = NULL;
    (void)folder, (void)part, (void)parts;
    if (seen->failed) return;
    if (asprintf(&path, "%.*s%s", slash ? (int)(slash - out) + 1 : 0, out, name) < 0)
        path = NULL, seen->failed = !gq_fail_memory(seen->e, strlen(out) + strlen(name));
    seen->failed = seen->failed || !plan_check_beside(seen->plan, seen->options, path, seen->e);
    free(path);
}

static bool outputs_are_no_journals(const gq_plan *plan, gq_error *e) {
    char *whole = journal_path(plan, 0, 0);
    if (!whole) return gq_fail_memory(e, strlen(plan->outputs[0].path) + 64);
    bool ok = true;
    for (size_t o = 0; ok && o < plan->n_outputs; o++)
        if (strncmp(plan->outputs[o].shards[0].path, whole, strlen(whole)) == 0)
            ok = gq_fail_usage(
                e, "the output %s would overwrite a file that gquant writes beside %s; choose another name",
                plan->outputs[o].path, plan->outputs[0].path);
    free(whole);
    return ok;
}

bool journal_check_names(const gq_plan *plan, const gq_options *options, gq_error *e) {
    inputs_seen seen = {.plan = plan, .options = options, .e = e};
    for_each(journal_output(plan), look_for_input, &seen,
             NULL); /* a folder that cannot be listed fails the run, not the plan */
    return !seen.failed && outputs_are_no_journals(plan, e);
}

static bool holds_any_chunk(const gq_plan *plan, const journal *j) {
    bool any = false;
    chunk_sum *sums = calloc(plan->n_outputs, sizeof *sums);
    for (uint64_t i = j->begin; sums && !any && i < j->end; i++) any = journal_find(j, i, sums);
    free(sums);
    return any;
}

/* Warns about an unfinished run whose journal fits the plan. */
static bool announce_fitting(const gq_plan *plan, const journal *j, bool whole, warning_list *warnings,
                             gq_error *e) {
    const char *out = plan->outputs[0].path;
    if (whole)
        return warnings_add(
            warnings, e, "an unfinished run for %s had written all of it; the file gets its name now", out);
    if (!plan_outputs_are_there(plan))
        return warnings_add(
            warnings, e,
            "an unfinished run for %s starts afresh: what it had written is missing or incomplete", out);
    if (holds_any_chunk(plan, j))
        return warnings_add(warnings, e, "an unfinished run for %s will be continued", out);
    return rounding_runs_ahead(plan) || /* which reports its finished layers itself */
           warnings_add(warnings, e, "an unfinished run for %s starts afresh: nothing of it was finished",
                        out);
}

bool journal_announce(const gq_plan *plan, bool whole, warning_list *warnings, gq_error *e) {
    journal_header found, wanted = journal_header_of(plan, plan->part, plan->parts);
    journal j;
    if (plan->share == SHARE_JOIN) return true;
    if (!journal_prepare(&j, plan, plan->part, plan->parts, e)) return false;
    j.fd = safe_file_open(j.path);
    bool ok = true;
    if (j.fd >= 0 && journal_read_header(j.fd, &found)) {
        const char *why = journal_mismatch(&found, &wanted), *out = plan->outputs[0].path;
        ok = why ? warnings_add(warnings, e, "an unfinished run for %s starts afresh: %s", out, why)
                 : announce_fitting(plan, &j, whole, warnings, e);
    }
    journal_close(&j);
    return ok;
}

/* ---- making chunks safe in the background ---- */

/* Syncs, then records. Called with the lock held, which is released meanwhile, so that workers continue adding. */
static void syncer_record(syncer *k) {
    if (k->n == 0 || k->failed) return;
    uint8_t *slots = k->slots;
    size_t n = k->n;
    k->slots = NULL, k->n = k->capacity = 0;
    pthread_mutex_unlock(&k->lock);
    gq_error error;
    bool ok = output_sync(k->outputs, &error) && journal_write(k->journal, slots, n, &error);
    for (size_t i = 0; ok && i < n; i++) {
        uint64_t mark;
        memcpy(&mark, slots + i * k->journal->slot, 8);
        cache_written(k->cache, k->outputs, mark - 1);
    }
    free(slots);
    pthread_mutex_lock(&k->lock);
    if (ok)
        k->recorded += n;
    else
        k->failed = true, k->error = error;
}

static double next_time(const gq_plan *plan) { return clock_seconds() + plan->sync_ms / 1e3; }

static void *syncer_run(void *arg) {
    syncer *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->stop) {
        double due = next_time(k->outputs->plan), whole = floor(due);
        struct timespec until = {(time_t)whole, (long)(1e9 * (due - whole))};
        while (!k->stop && pthread_cond_timedwait(&k->wake, &k->lock, &until) != ETIMEDOUT) {
        }
        if (!k->stop) syncer_record(k);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

void syncer_start(syncer *k, const output_set *outputs, const journal *j, const cache *c) {
    *k = (syncer){
        .outputs = outputs, .journal = j, .cache = c, .started = true, .due = next_time(outputs->plan)};
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    k->alone = threads_start(&k->thread, syncer_run, k) != 0;
}

bool syncer_add(syncer *k, uint64_t chunk_number, const chunk_sum *sums, gq_error *e) {
    pthread_mutex_lock(&k->lock);
    bool ok = !k->failed && memory_grow(&k->slots, &k->capacity, k->n + 1, k->journal->slot, e);
    if (ok) journal_fill(k->journal, k->slots + k->n++ * k->journal->slot, chunk_number, sums);
    if (ok && k->alone && clock_seconds() >= k->due) {
        k->due += 3600; /* one at a time */
        syncer_record(k);
        k->due = next_time(k->outputs->plan);
        ok = !k->failed;
    }
    if (k->failed && e) *e = k->error;
    pthread_mutex_unlock(&k->lock);
    return ok;
}

bool syncer_stop(syncer *k, bool record_rest, gq_error *e) {
    if (!k->started) return true;
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    if (!k->alone) pthread_join(k->thread, NULL);
    pthread_mutex_lock(&k->lock);
    if (record_rest) syncer_record(k);
    bool ok = !k->failed;
    if (!ok && e) *e = k->error;
    pthread_mutex_unlock(&k->lock);
    free(k->slots);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->wake);
    k->started = false;
    return ok;
}
