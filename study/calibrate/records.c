#include "study/calibrate/calibrate.h"

#include <string.h>

bool record_add(calibrate_record *r, const calibrate_entry *entry, const float *squares, gq_error *e) {
    size_t more = entry->squares * sizeof *squares;
    if (!memory_grow(&r->bytes, &r->capacity, r->n + sizeof *entry + more, 1, e)) return false;
    memcpy(r->bytes + r->n, entry, sizeof *entry);
    if (more) memcpy(r->bytes + r->n + sizeof *entry, squares, more);
    r->n += sizeof *entry + more;
    return true;
}

static bool record_checksum(const calibration *job, const calibrate_entry *entry, uint32_t *crc,
                            gq_error *e) {
    uint8_t piece[1 << 16];
    const rounding_store *store = &job->store;
    uint64_t left = job->outputs[entry->output][entry->tensor].out_bytes;
    *crc = 0;
    for (uint64_t at = 0, n; left > 0; at += n, left -= n) {
        n = left < sizeof piece ? left : sizeof piece;
        if (!store->read(store->data, entry->output, entry->tensor, at, piece, n, e)) return false;
        *crc = checksum_add(*crc, piece, n);
    }
    return true;
}

bool record_sum_up(calibrate_record *r, const calibration *job, gq_error *e) {
    calibrate_entry entry;
    for (size_t at = 0; at < r->n; at += sizeof entry + entry.squares * sizeof(float)) {
        memcpy(&entry, r->bytes + at, sizeof entry);
        if (!record_checksum(job, &entry, &entry.crc, e)) return false;
        memcpy(r->bytes + at, &entry, sizeof entry);
    }
    return true;
}

/* The floats of an entry: of all columns of all matrices, or none. */
static bool record_squares_fit(const calibrate_entry *entry, const model_tensor *t) {
    return !entry->squares || entry->squares == t->ne[0] * shape_matrices(t->ne);
}

bool record_next(const uint8_t *bytes, uint64_t n, uint64_t *at, const calibration *job,
                 calibrate_entry *entry, const uint8_t **squares) {
    if (n - *at < sizeof *entry) return false;
    memcpy(entry, bytes + *at, sizeof *entry);
    if (entry->output >= job->n_outputs || entry->tensor >= job->n_tensors ||
        entry->reason >= ROUND_REASONS || !job->outputs[entry->output][entry->tensor].calibrated ||
        !record_squares_fit(entry, job->tensors[entry->tensor]) ||
        (n - *at - sizeof *entry) / sizeof(float) < entry->squares)
        return false;
    if (squares) *squares = bytes + *at + sizeof *entry;
    *at += sizeof *entry + entry->squares * sizeof(float);
    return true;
}

bool record_is_in_file(const calibrate_entry *entry, const calibration *job, bool *holds, gq_error *e) {
    uint32_t crc = entry->crc;
    bool ok = !job->store.read || record_checksum(job, entry, &crc, e);
    *holds = crc == entry->crc;
    return ok;
}
