#include "base/sized.h"

#include <stdint.h>
#include <string.h>

enum { MOST = 1 << 16 }; /* bytes; a larger size was not set but happened to be in memory */

bool sized_take(void *to, size_t own, const void *from, const char *name, gq_error *e) {
    size_t size = own;
    memset(to, 0, own);
    if (from) memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > MOST)
        return gq_fail_usage(e, "%s.size is %zu, expected sizeof(%s)", name, size, name);
    const uint8_t *bytes = from;
    for (size_t i = own; i < size; i++)
        if (bytes[i])
            return gq_fail_usage(e,
                                 "%s: a member is set that this version of the library, %s, does not have; "
                                 "use a newer library",
                                 name, GQ_VERSION);
    if (from) memcpy(to, from, size < own ? size : own);
    memcpy(to, &own, sizeof own);
    return true;
}

void sized_give(void *to, const void *from, size_t own) {
    size_t size;
    memcpy(&size, to, sizeof size);
    if (size > own) size = own;
    if (size > sizeof size)
        memcpy((char *)to + sizeof size, (const char *)from + sizeof size, size - sizeof size);
}
