#include "quantize/study/calibrate/record.h"

#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"

bool record_add(calibrate_record *r, const calibrate_entry *entry, gq_error *e) {
    if (!memory_grow(&r->entries, &r->capacity, r->n + 1, sizeof *r->entries, e)) return false;
    r->entries[r->n++] = *entry;
    return true;
}

static bool record_checksum(const calibrate_job *job, const calibrate_entry *entry, uint32_t *crc,
                            gq_error *e) {
    uint8_t piece[1 << 16];
    const calibrate_store *store = &job->store;
    uint64_t left = job->outputs[entry->output][entry->tensor].out_bytes;
    *crc = 0;
    for (uint64_t at = 0, n; left > 0; at += n, left -= n) {
        n = left < sizeof piece ? left : sizeof piece;
        if (!store->read(store->data, entry->output, entry->tensor, at, piece, n, e)) return false;
        *crc = checksum_add(*crc, piece, n);
    }
    return true;
}

bool record_sum_up(calibrate_record *r, const calibrate_job *job, gq_error *e) {
    for (size_t i = 0; i < r->n; i++)
        if (!record_checksum(job, &r->entries[i], &r->entries[i].crc, e)) return false;
    return true;
}

calibrate_entry record_entry(const uint8_t *bytes, uint64_t i) {
    calibrate_entry entry;
    memcpy(&entry, bytes + i * sizeof entry, sizeof entry);
    return entry;
}

static bool record_is_of_job(const calibrate_entry *entry, const calibrate_job *job) {
    return entry->output < job->n_outputs && entry->tensor < job->n_tensors &&
           entry->reason < ROUND_REASONS && job->outputs[entry->output][entry->tensor].calibrated;
}

bool record_holds(const uint8_t *bytes, uint64_t n, const calibrate_job *job, bool *holds, gq_error *e) {
    bool ok = true;
    *holds = n % sizeof(calibrate_entry) == 0;
    for (uint64_t i = 0; ok && *holds && i < record_entries(n); i++) {
        calibrate_entry entry = record_entry(bytes, i);
        uint32_t crc = entry.crc;
        *holds = record_is_of_job(&entry, job);
        if (*holds && job->store.read) ok = record_checksum(job, &entry, &crc, e);
        *holds = *holds && crc == entry.crc;
    }
    return ok;
}
