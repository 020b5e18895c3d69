#include "model/value.h"
#include "gguf/cursor.h"

/* Bytes that the smallest value of a type takes. */
static uint32_t value_least(uint32_t type) {
    uint32_t size = gguf_value_size(type);
    return size ? size : type == GGUF_STRING ? GGUF_STRING_HEAD : GGUF_ARRAY_HEAD;
}

/* `n` values of a type that has a fixed size; the caller knows that n x size cannot wrap. */
static bool skip_fixed(gguf_cursor *c, uint32_t type, uint64_t n) {
    uint64_t size = n * gguf_value_size(type);
    if (!gguf_cursor_need(c, size, gguf_value_name(type))) return false;
    for (uint64_t i = 0; type == GGUF_BOOL && i < n; i++) {
        unsigned byte = c->bytes[c->at + i];
        if (byte > 1) return gguf_cursor_fail(c, c->at + i, "a bool is stored as %u, expected 0 or 1", byte);
    }
    c->at += size;
    return true;
}

static bool array_head(gguf_cursor *c, uint32_t *type, uint64_t *count) {
    if (!gguf_cursor_u32(c, type, "array element type")) return false;
    if (*type >= GGUF_VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "array element type %u is unknown, expected 0 to %d", *type,
                                GGUF_VALUE_TYPES - 1);
    if (!gguf_cursor_u64(c, count, "array length")) return false;
    uint64_t left = gguf_cursor_left(c);
    if (*count > left / value_least(*type)) {
        return gguf_cursor_fail(c, c->at - 8,
                                "array of %llu elements of type %s, but only %llu bytes are left in the file",
                                (unsigned long long)*count, gguf_value_name(*type), (unsigned long long)left);
    }
    return true;
}

bool gguf_cursor_value(gguf_cursor *c, uint32_t type) {
    /* A stack of our own: the depth of nesting is the file's choice. Level 0 is the value itself. */
    struct {
        uint32_t type;
        uint64_t left;
    } level[GGUF_MAX_NESTING + 1] = {{type, 1}};
    int depth = 0;
    if (type >= GGUF_VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "value type %u is unknown, expected 0 to %d", type,
                                GGUF_VALUE_TYPES - 1);
    while (depth >= 0) {
        uint32_t t = level[depth].type;
        if (level[depth].left == 0) {
            depth--;
        } else if (gguf_value_size(t)) {
            if (!skip_fixed(c, t, level[depth].left)) return false;
            level[depth].left = 0;
        } else if (t == GGUF_STRING) {
            uint64_t start, length;
            if (!gguf_cursor_string(c, UINT64_MAX, &start, &length, "string")) return false;
            level[depth].left--;
        } else {
            level[depth].left--;
            if (depth == GGUF_MAX_NESTING)
                return gguf_cursor_fail(c, c->at, "arrays are nested more than %d deep", GGUF_MAX_NESTING);
            depth++;
            if (!array_head(c, &level[depth].type, &level[depth].left)) return false;
        }
    }
    return true;
}
