/* CRC-32 of bytes, as in gzip and PNG. It finds damage and change, but not malice. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Returns the checksum of the bytes that `sum` is the checksum of, followed by n more. That of no bytes is 0. */
uint32_t checksum_add(uint32_t sum, const void *bytes, size_t n);
/* The same with a text and its final NUL, so that "a", "bc" and "ab", "c" differ. */
uint32_t checksum_add_text(uint32_t sum, const char *text);
/* The checksum of two runs of bytes, one behind the other, from theirs and the length of the second. With
 * second = 0 it is the first one's share: shares of all runs, combined by exclusive or, are the whole's. */
uint32_t checksum_join(uint32_t first, uint32_t second, uint64_t second_bytes);

/* SHA-256 (FIPS 180-4): for looking up what others have published under such digests, and for publishing. */

enum { SHA256_BYTES = 32, SHA256_TEXT = 2 * SHA256_BYTES + 1 };

void sha256_sum(const void *bytes, size_t n, uint8_t digest[SHA256_BYTES]);
/* Writes a digest as 64 lower-case hexadecimal digits and a NUL. */
void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]);
/* Sums a regular file and writes its digest. `each` is called behind every piece of n bytes, and stops the
 * work by false (NULL: not called). */
bool sha256_file(const char *path, char text[SHA256_TEXT], bool (*each)(void *data, size_t n, gq_error *e),
                 void *data, gq_error *e);
