/* Sizes in messages, in the largest unit that they reach: of memory in powers of 1024, of files and disks in powers of
 * 1000, as hubs print them.
 */
#pragma once

#include <stdint.h>

enum { UNITS_TEXT_BYTES = 32 };
/* Write a size into the caller's buffer, which they return: "512 bytes", "3.25 MiB"; "3.41 MB". */
char *units_memory(char to[UNITS_TEXT_BYTES], uint64_t bytes);
char *units_file(char to[UNITS_TEXT_BYTES], uint64_t bytes);
/* Write two sizes that a message compares: as bytes where they would read alike. */
void units_compare_memory(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES],
                          uint64_t second);
void units_compare_files(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES], uint64_t second);
/* Writes a size of memory of at least so many bytes, as options take it: "14Gi", "820Mi". */
char *units_enough_memory(char to[UNITS_TEXT_BYTES], uint64_t bytes);
