#include "forward/stream/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/safe_file.h"

/* Batches of a loop. */
static size_t hidden_states_loop_batches(const hidden_states *s) { return ceil_div(s->windows, s->batch); }

size_t hidden_states_loop(const hidden_states *s, size_t batch) {
    return batch / hidden_states_loop_batches(s);
}

size_t hidden_states_first(const hidden_states *s, size_t batch) {
    return batch % hidden_states_loop_batches(s) * s->batch;
}

size_t hidden_states_windows(const hidden_states *s, size_t batch) {
    size_t left = s->windows - hidden_states_first(s, batch);
    return left < s->batch ? left : s->batch;
}

size_t hidden_states_stride(const hidden_states *s, size_t batch) {
    return forward_stride(hidden_states_windows(s, batch) * s->context);
}

static float *take_batch(const hidden_states *s, size_t batch, memory_ledger *l) {
    return forward_activations_take(l, s->width, hidden_states_stride(s, batch));
}

/* Takes the hidden states of all batches. For counting, all but the last of a loop are alike: there may be
 * very many. */
static void lay_out_held(hidden_states *s, memory_ledger *l) {
    s->held = memory_take_zeros(l, s->batches, sizeof *s->held);
    if (s->held)
        for (size_t i = 0; i < s->batches; i++) s->held[i] = take_batch(s, i, l);
    if (!l->counts) return;
    memory_ledger one = {.counts = true};
    take_batch(s, 0, &one);
    memory_hold(l, mul_sat(s->batches - s->loops, one.bytes));
    for (size_t i = 0; i < s->loops; i++) take_batch(s, s->batches - 1, l);
}

static void lay_out_hidden_states(hidden_states *s, bool in_file, memory_ledger *l) {
    s->batches = mul_sat(s->loops, hidden_states_loop_batches(s));
    s->running = memory_take_zeros(l, s->loops, sizeof *s->running);
    s->sums = memory_take_zeros(l, s->loops, sizeof *s->sums);
    if (s->file.fd >= 0) s->window = forward_activations_take(l, s->width, s->context);
    if (in_file)
        s->x = take_batch(s, 0, l);
    else
        lay_out_held(s, l);
}

uint64_t hidden_states_bytes(uint64_t width, const forward_job *j, size_t batch, bool in_file) {
    memory_ledger l = {.counts = true};
    lay_out_hidden_states(&(hidden_states){.width = width,
                                           .context = j->context,
                                           .windows = j->windows,
                                           .batch = batch,
                                           .loops = forward_job_loops(j)},
                          in_file, &l);
    return l.bytes;
}

bool hidden_states_new(hidden_states *s, bool in_file, const hidden_state_slots *file, gq_error *e) {
    memory_ledger l = {.failed = false};
    s->file = file ? *file : (hidden_state_slots){.fd = -1, .slots = 1};
    if (in_file && s->file.fd < 0)
        return gq_fail(e, "the hidden states of %zu windows of %zu tokens do not fit in memory", s->windows,
                       s->context);
    lay_out_hidden_states(s, in_file, &l);
    return memory_had(&l, e);
}

void hidden_states_free(hidden_states *s) {
    for (size_t i = 0; s->held && i < s->batches; i++) free(s->held[i]);
    free(s->held), free(s->x), free(s->window), free(s->running), free(s->sums);
    *s = (hidden_states){.file.fd = -1};
}

static unsigned next_slot(const hidden_states *s) { return (s->slot + 1) % s->file.slots; }

/* One byte in so many of the disk stays free: cached results are not worth a full disk. */
enum { KEPT_LEAVES_FREE = 8 };

/* Opens a file without a name. Where the file system cannot make such files it has a name for a moment. */
static int open_nameless(const char *folder) {
    char *path = NULL;
    int fd = gq_open(folder, O_TMPFILE | O_RDWR, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
    if (asprintf(&path, "%s/.gquant-states-%ld", folder, (long)getpid()) < 0) return -1;
    fd = safe_file_create(path);
    if (fd >= 0) unlink(path);
    free(path);
    return fd;
}

/* Returns the bytes that are free on an open file's disk; UINT64_MAX: not known. */
static uint64_t disk_free(int fd) {
    struct statvfs fs;
    return fstatvfs(fd, &fs) == 0 ? mul_sat(fs.f_bavail, fs.f_frsize) : UINT64_MAX;
}

int hidden_state_slots_open(const char *folder, uint64_t bytes, gq_error *e) {
    int fd = open_nameless(folder);
    if (fd < 0)
        return gq_fail(e, "cannot create a file for hidden states in %s: %s", folder, strerror(errno)), -1;
    bool fits = bytes <= disk_free(fd);
    if (!fits) errno = ENOSPC;
    if (fits && safe_file_reserve(fd, bytes)) return fd;
    gq_fail(e, "cannot reserve %llu bytes for hidden states in %s: %s", (unsigned long long)bytes, folder,
            strerror(errno));
    close(fd);
    return -1;
}

uint64_t probe_cache_room(const char *folder) {
    int fd = gq_open(folder, O_RDONLY | O_DIRECTORY, 0);
    uint64_t bytes = fd >= 0 ? disk_free(fd) : UINT64_MAX;
    if (fd >= 0) close(fd);
    return bytes - bytes / KEPT_LEAVES_FREE;
}

/* ---- the file: window after window, each feature after feature ---- */

static uint64_t window_bytes(const hidden_states *s) {
    return (uint64_t)s->width * s->context * sizeof(float);
}

/* Windows of a loop in the file. */
static size_t hidden_states_loop_windows(const hidden_states *s) {
    return s->file.all_windows ? s->file.all_windows : s->windows;
}

static uint64_t hidden_states_offset_of(const hidden_states *s, unsigned slot, size_t window) {
    return s->file.at + (slot * s->loops * hidden_states_loop_windows(s) + window) * window_bytes(s);
}

/* The number of a batch's first window in the file. */
static size_t hidden_states_place(const hidden_states *s, size_t batch) {
    return hidden_states_loop(s, batch) * hidden_states_loop_windows(s) + hidden_states_first(s, batch);
}

static bool hidden_states_fail(const hidden_states *s, const char *what, const char *why, gq_error *e) {
    return gq_fail(e, "%s: hidden states cannot be %s: %s", s->file.path, what, why);
}

static bool read_batch(hidden_states *s, size_t batch, float *x, gq_error *e) {
    size_t stride = hidden_states_stride(s, batch), n = hidden_states_windows(s, batch),
           first = hidden_states_place(s, batch);
    for (size_t w = 0; w < n; w++) {
        uint64_t at = hidden_states_offset_of(s, s->begun ? next_slot(s) : s->slot, first + w);
        if (!safe_file_read(s->file.fd, at, s->window, window_bytes(s)))
            return hidden_states_fail(s, "read", strerror(errno), e);
        for (size_t f = 0; f < s->width; f++)
            memcpy(x + f * stride + w * s->context, s->window + f * s->context, s->context * sizeof *x);
    }
    return true;
}

/* Batches are written in order, so that the checksums of a slot come about on the way. */
static bool write_batch(hidden_states *s, unsigned slot, size_t batch, const float *x, gq_error *e) {
    size_t stride = hidden_states_stride(s, batch), n = hidden_states_windows(s, batch),
           first = hidden_states_place(s, batch);
    uint64_t *running = &s->running[hidden_states_loop(s, batch)];
    if (hidden_states_first(s, batch) == 0) *running = 0;
    for (size_t w = 0; w < n; w++) {
        uint64_t at = hidden_states_offset_of(s, slot, first + w);
        for (size_t f = 0; f < s->width; f++)
            memcpy(s->window + f * s->context, x + f * stride + w * s->context, s->context * sizeof *x);
        if (!safe_file_write(s->file.fd, at, s->window, window_bytes(s)))
            return hidden_states_fail(s, "written", strerror(errno), e);
        *running = checksum_add((uint32_t)*running, s->window, window_bytes(s));
    }
    return true;
}

/* ---- a batch at a time ---- */

float *hidden_states_take(hidden_states *s, size_t batch, bool fresh, gq_error *e) {
    if (s->held) return s->held[batch];
    return fresh || read_batch(s, batch, s->x, e) ? s->x : NULL;
}

bool hidden_states_put(hidden_states *s, size_t batch, const float *x, bool done, gq_error *e) {
    return s->file.fd < 0 || (s->held && !done) || write_batch(s, next_slot(s), batch, x, e);
}

void hidden_states_next_slot(hidden_states *s, bool done) {
    if (done) s->slot = next_slot(s);
    for (size_t i = 0; done && s->file.fd >= 0 && i < s->loops; i++)
        s->sums[i] = UINT64_C(1) << 32 | s->running[i];
    s->begun = !done;
}

bool hidden_states_resume(hidden_states *s, unsigned slot, gq_error *e) {
    s->slot = slot, s->begun = false;
    for (size_t i = 0; s->held && i < s->batches; i++)
        if (!read_batch(s, i, s->held[i], e)) return false;
    return true;
}
