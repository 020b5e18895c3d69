#include "quantize/run/calibrate_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/memory.h"

enum { PIECE = 1 << 20 };

bool record_add(calibrate_record *r, const calibrate_entry *entry, gq_error *e) {
    if (!memory_grow(&r->entries, &r->room, r->n + 1, sizeof *r->entries, e)) return false;
    r->entries[r->n] = *entry;
    r->entries[r->n++].rounding.why = NULL;
    return true;
}

static bool checksum(const gq_plan *plan, const output_set *outputs, const calibrate_entry *entry,
                     uint8_t *piece, uint32_t *crc, gq_error *e) {
    const plan_output *out = &plan->outputs[entry->output];
    const plan_place *place = &out->places[entry->tensor];
    uint64_t left = out->tensors[entry->tensor].out_bytes;
    *crc = 0;
    for (uint64_t at = place->offset, n; left > 0; at += n, left -= n) {
        n = left < PIECE ? left : PIECE;
        if (!output_read(outputs, entry->output, place->shard, at, piece, n, e)) return false;
        *crc = checksum_add(*crc, piece, n);
    }
    return true;
}

bool record_sum_up(calibrate_record *r, const gq_plan *plan, const output_set *outputs, gq_error *e) {
    uint8_t *piece = malloc(PIECE);
    bool ok = piece || gq_fail_memory(e, PIECE);
    for (size_t i = 0; ok && i < r->n; i++)
        ok = checksum(plan, outputs, &r->entries[i], piece, &r->entries[i].crc, e);
    free(piece);
    return ok;
}

/* Records may begin anywhere in memory. */
static calibrate_entry entry_at(const uint8_t *bytes, uint64_t i) {
    calibrate_entry entry;
    memcpy(&entry, bytes + i * sizeof entry, sizeof entry);
    return entry;
}

bool record_holds(const uint8_t *bytes, uint64_t n, const gq_plan *plan, const output_set *outputs) {
    uint8_t *piece = malloc(PIECE);
    bool ok = piece && n % sizeof(calibrate_entry) == 0;
    for (uint64_t i = 0; ok && i < n / sizeof(calibrate_entry); i++) {
        calibrate_entry entry = entry_at(bytes, i);
        uint32_t crc;
        ok = entry.output < plan->n_outputs && entry.tensor < plan->n_tensors &&
             entry.reason < ROUND_REASONS && plan->outputs[entry.output].tensors[entry.tensor].calibrated &&
             (!outputs || (checksum(plan, outputs, &entry, piece, &crc, NULL) && crc == entry.crc));
    }
    free(piece);
    return ok;
}

void record_tell(const uint8_t *bytes, uint64_t n, gq_results *results) {
    for (uint64_t i = 0; i < n / sizeof(calibrate_entry); i++) {
        calibrate_entry entry = entry_at(bytes, i);
        gq_rounding *to = results_rounding(results, entry.output, entry.tensor);
        *to = entry.rounding;
        to->why = round_reason_text((round_reason)entry.reason);
    }
}
