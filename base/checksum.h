/* CRC-32 of bytes, as in gzip and PNG. It finds damage and change, but not malice. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of the bytes that `sum` is the checksum of, followed by n more. That of no bytes is 0.
 */
uint32_t checksum_add(uint32_t sum, const void *bytes, size_t n);
/* The same with a text and its final NUL, so that "a", "bc" and "ab", "c" differ. */
uint32_t checksum_add_text(uint32_t sum, const char *text);
/* The checksum of two runs of bytes, one behind the other, from theirs and the length of the second. With
 * second = 0 it is the first one's share: shares of all runs, combined by exclusive or, are the whole's. */
uint32_t checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);
