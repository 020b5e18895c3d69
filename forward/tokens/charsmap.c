/* The map is a double array (Kanda's XCDA): the child of node s by byte c is unit base(s) ^ c, if that unit's
 * label is c. A node at which a key ends says so, and the unit at its own base has where the key's text
 * begins. */
#include "forward/tokens/tokens.h"

#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

enum { UNIT_BYTES = 4, HEADER_BYTES = 4 };
#define DAMAGED \
    "the vocabulary's map of characters (precompiled_charsmap) is damaged, convert the model again: "

static uint32_t read_u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

bool charsmap_open(charsmap *m, const uint8_t *bytes, uint64_t n, gq_error *e) {
    uint64_t units = n >= HEADER_BYTES ? read_u32(bytes) : 0;
    if (n < HEADER_BYTES || units >= n - HEADER_BYTES)
        return gq_fail(
            e, "says that its table has %llu bytes, but there are %llu in all, and texts must follow it",
            (unsigned long long)units, (unsigned long long)n);
    *m = (charsmap){.units = bytes + HEADER_BYTES,
                    .n_units = (uint32_t)(units / UNIT_BYTES),
                    .texts = (const char *)bytes + HEADER_BYTES + units,
                    .n_texts = (size_t)(n - HEADER_BYTES - units)};
    return true;
}

static uint32_t unit_base(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

static bool charsmap_unit(const charsmap *m, uint32_t at, uint32_t *unit, gq_error *e) {
    if (at >= m->n_units) return gq_fail(e, DAMAGED "it leads to unit %u of %u", at, m->n_units);
    *unit = read_u32(m->units + UNIT_BYTES * (size_t)at);
    return true;
}

/* Finds the longest key that a text begins with; *length 0: none. *ends: what follows could not change that. */
static bool longest_key(const charsmap *m, const char *text, size_t n, uint32_t *value, size_t *length,
                        bool *ends, gq_error *e) {
    uint32_t unit, at;
    *length = 0, *ends = true;
    if (!charsmap_unit(m, 0, &unit, e)) return false;
    at = unit_base(unit);
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c == 0) return true;
        if (!charsmap_unit(m, at ^= c, &unit, e)) return false;
        if ((unit & (1u << 31 | 0xff)) != c) return true;
        at ^= unit_base(unit);
        if (unit & 1u << 8) {
            if (!charsmap_unit(m, at, value, e)) return false;
            *value &= ~(1u << 31), *length = i + 1;
        }
        if (i == CHARSMAP_LONGEST)
            return gq_fail(e, DAMAGED "a key has more than %d bytes", CHARSMAP_LONGEST);
    }
    *ends = false;
    return true;
}

/* Bytes of the character that a text begins with, decoded leniently; 0: it is broken. *ends as above. */
static size_t character_bytes(const char *text, size_t n, bool *ends) {
    uint8_t first = (uint8_t)*text;
    size_t length = first < 0x80   ? 1
                    : first < 0xc0 ? 0
                    : first < 0xe0 ? 2
                    : first < 0xf0 ? 3
                    : first < 0xf8 ? 4
                                   : 0;
    *ends = true;
    for (size_t i = 1; i < length; i++) {
        if (i == n) return *ends = false, 0;
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

bool charsmap_find(const charsmap *m, const char *text, size_t n, bool last, normal_form *form, gq_error *e) {
    uint32_t value = 0;
    size_t length = 0;
    bool ends = true;
    *form = (normal_form){.text = text};
    if (m->n_units && !longest_key(m, text, n, &value, &length, &ends, e)) return false;
    if (!ends && !last) return true;
    if (length == 0) {
        length = character_bytes(text, n, &ends);
        if (!ends && !last) return true;
        if (length == 0)
            *form = (normal_form){"\xef\xbf\xbd", 3, 1};
        else
            *form = (normal_form){text, length, length};
        return true;
    }
    size_t most = value < m->n_texts ? m->n_texts - value : 0;
    const char *end = most ? memchr(m->texts + value, 0, min(most, CHARSMAP_LONGEST + 1)) : NULL;
    if (!end)
        return gq_fail(e, DAMAGED "a text at byte %u of %zu has no end, or one of more than %d bytes", value,
                       m->n_texts, CHARSMAP_LONGEST);
    *form = (normal_form){m->texts + value, (size_t)(end - (m->texts + value)), length};
    return true;
}
