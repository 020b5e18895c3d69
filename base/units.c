#include "base/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static char *plain_bytes(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    snprintf(to, UNITS_TEXT_BYTES, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
    return to;
}

static char *units_print(char to[UNITS_TEXT_BYTES], uint64_t bytes, double step, const char *const units[4]) {
    size_t unit = 0;
    double value = (double)bytes / step;
    if (value < 1) return plain_bytes(to, bytes);
    while (unit < 3 && value >= step) value /= step, unit++;
    snprintf(to, UNITS_TEXT_BYTES, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
    return to;
}

char *units_memory(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    return units_print(to, bytes, 1024, (const char *const[4]){"KiB", "MiB", "GiB", "TiB"});
}

char *units_file(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    return units_print(to, bytes, 1000, (const char *const[4]){"kB", "MB", "GB", "TB"});
}

void units_compare_memory(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES],
                          uint64_t second) {
    if (strcmp(units_memory(a, first), units_memory(b, second)) == 0 && first != second)
        plain_bytes(a, first), plain_bytes(b, second);
}

void units_compare_files(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES],
                         uint64_t second) {
    if (strcmp(units_file(a, first), units_file(b, second)) == 0 && first != second)
        plain_bytes(a, first), plain_bytes(b, second);
}

char *units_enough_memory(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    enum { WHOLE_GIB = 8 }; /* from here on a finer size says nothing */
    bool is_gib = bytes >> 30 >= WHOLE_GIB;
    int shift = is_gib ? 30 : 20;
    uint64_t n = (bytes >> shift) + ((bytes & ((UINT64_C(1) << shift) - 1)) != 0);
    snprintf(to, UNITS_TEXT_BYTES, "%" PRIu64 "%s", n, is_gib ? "Gi" : "Mi");
    return to;
}
