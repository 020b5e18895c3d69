/* Sizes in messages: in the largest unit of 1024 that they reach. */
#pragma once

#include <stdint.h>

enum { UNITS_TEXT_BYTES = 32 };
/* Writes a size into the caller's buffer, which it returns: "512 bytes", "3.25 MiB". */
char *units_bytes(char to[UNITS_TEXT_BYTES], uint64_t bytes);
/* Writes two sizes that a message compares: as bytes where they would read alike. */
void units_compared(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES], uint64_t second);
