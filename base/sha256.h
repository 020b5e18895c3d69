/* SHA-256 (FIPS 180-4): for looking up what others have published under such digests, and for publishing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { SHA256_BYTES = 32, SHA256_TEXT = 2 * SHA256_BYTES + 1 };

void sha256_sum(const void *bytes, size_t n, uint8_t digest[SHA256_BYTES]);
/* Writes a digest as 64 lower-case hexadecimal digits and a NUL. */
void sha256_print(const uint8_t digest[SHA256_BYTES], char text[SHA256_TEXT]);
/* Sums a regular file and writes its digest. `each` is called behind every piece of n bytes, and stops the
 * work by false (NULL: not called). */
bool sha256_file(const char *path, char text[SHA256_TEXT], bool (*each)(void *data, size_t n, gq_error *e),
                 void *data, gq_error *e);
