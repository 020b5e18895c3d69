#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static char *plain_bytes(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    snprintf(to, UNITS_TEXT_BYTES, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
    return to;
}

char *units_bytes(char to[UNITS_TEXT_BYTES], uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double value = (double)bytes / 1024;
    if (bytes < 1024) return plain_bytes(to, bytes);
    while (unit < 3 && value >= 1024) value /= 1024, unit++;
    snprintf(to, UNITS_TEXT_BYTES, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, units[unit]);
    return to;
}

void units_compared(char a[UNITS_TEXT_BYTES], uint64_t first, char b[UNITS_TEXT_BYTES], uint64_t second) {
    if (strcmp(units_bytes(a, first), units_bytes(b, second)) == 0 && first != second)
        plain_bytes(a, first), plain_bytes(b, second);
}
