#include "model/sample.h"

#include "base/checked.h"
#include "base/checksum.h"

enum {
    SAMPLES = 1024,
    SAMPLE_BYTES = 4096,
};

/* Pieces of a range from its first byte to its last, one alone from the middle. With `ahead` they are only
 * asked for, so that the disk can fetch all of them at once. */
static bool sample_pieces(const sample_range *r, uint64_t pieces, bool ahead, uint32_t *content,
                          gq_error *e) {
    uint8_t bytes[SAMPLE_BYTES];
    size_t n = (size_t)min(r->size, SAMPLE_BYTES);
    uint64_t room = r->size - n;
    pieces = min(pieces, r->size / SAMPLE_BYTES + 1);
    for (uint64_t i = 0, gaps = pieces - 1; i < pieces; i++) {
        uint64_t at = r->offset + (gaps ? room / gaps * i + room % gaps * i / gaps : room / 2);
        if (ahead) {
            gq_file_will_need(r->file, at, n);
            continue;
        }
        if (!gq_file_read(r->file, at, bytes, n, e)) return false;
        *content = checksum_add(*content, bytes, n);
    }
    return true;
}

bool sample_fold(uint64_t n, sample_range (*range_of)(const void *user, uint64_t i), const void *user,
                 uint32_t *content, gq_error *e) {
    uint64_t step = n / SAMPLES + 1, pieces = n > 0 && n < SAMPLES ? SAMPLES / n : 1;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < n; i += step) {
            sample_range r = range_of(user, i);
            if (!sample_pieces(&r, pieces, pass == 0, content, e)) return false;
        }
    return true;
}
