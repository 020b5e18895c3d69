#include "base/checksum.h"

#include <string.h>
#include <zlib.h>

uint32_t checksum_add(uint32_t sum, const void *bytes, size_t n) {
    return n ? (uint32_t)crc32_z(sum, bytes, n) : sum; /* zlib takes NULL as the wish to begin anew */
}

uint32_t checksum_add_text(uint32_t sum, const char *text) {
    return checksum_add(sum, text, strlen(text) + 1);
}

uint32_t checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
    enum { STEP = 1 << 30 }; /* zlib's type of a length has 32 bits on some systems */
    for (; second_bytes > STEP; second_bytes -= STEP) first = (uint32_t)crc32_combine(first, 0, STEP);
    return (uint32_t)crc32_combine(first, second, (z_off_t)second_bytes);
}
