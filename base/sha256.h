/* SHA-256 (FIPS 180-4) of bytes in memory: for looking up what others have published under such digests. */
#ifndef GQ_SHA256_H
#define GQ_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32 };

void sha256_sum(const void *bytes, size_t n, uint8_t digest[SHA256_BYTES]);
/* Writes a digest as 64 lower-case hexadecimal digits and a NUL. */
void sha256_print(const uint8_t digest[SHA256_BYTES], char text[2 * SHA256_BYTES + 1]);

#endif
