#include "gguf/cursor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/value.h"

enum {
    STEP = 64 << 10,  /* read ahead: few calls, and little of the data section by mistake */
    SHOWN_NAME = 200, /* a key may have 65535 bytes, a message has 1023 */
    MAX_HEADER =
        1
        << 30, /* held in memory; the largest vocabularies take some 50 MiB, a sparse file claims any size */
};

bool(gguf_cursor_fail)(gguf_cursor *c, uint64_t at, const char *format, ...) {
    const gguf_subject *s = &c->subject;
    char reason[512], who[SHOWN_NAME + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (s->name_length) {
        int n = s->name_length < SHOWN_NAME ? (int)s->name_length : SHOWN_NAME;
        snprintf(who, sizeof who, "%s '%.*s'", s->kind, n, (const char *)c->bytes + s->name_at);
    } else if (s->count) {
        snprintf(who, sizeof who, "%s %llu of %llu", s->kind, (unsigned long long)s->index + 1,
                 (unsigned long long)s->count);
    } else {
        snprintf(who, sizeof who, "%s", s->kind);
    }
    return gq_fail(c->e, "%s: %s, at byte %llu: %s", c->file->path, who, (unsigned long long)at, reason);
}

/* Read on until `end` (within the file) is in memory. */
static bool read_until(gguf_cursor *c, uint64_t end) {
    if (end > MAX_HEADER)
        return gguf_cursor_fail(c, c->at, "metadata and tensor table exceed %d bytes", MAX_HEADER);
    uint64_t limit = c->file->size < MAX_HEADER ? c->file->size : MAX_HEADER;
    uint64_t want = limit - end > STEP ? end + STEP : limit;
    if (want > c->capacity) {
        uint64_t capacity = want < limit / 2 ? 2 * want : limit;
        uint8_t *bytes = realloc(c->bytes, capacity);
        if (!bytes) return gq_fail_memory(c->e, capacity);
        c->bytes = bytes, c->capacity = capacity;
    }
    if (!gq_file_read(c->file, c->filled, c->bytes + c->filled, want - c->filled, c->e)) return false;
    c->filled = want;
    return true;
}

/* Have the next n bytes in memory; fails when the file ends before. `what` names them in the message. */
static bool gguf_cursor_need(gguf_cursor *c, uint64_t n, const char *what) {
    if (n > gguf_cursor_left(c)) {
        return gguf_cursor_fail(c, c->at, "%s takes %llu bytes, but only %llu are left in the file", what,
                                (unsigned long long)n, (unsigned long long)gguf_cursor_left(c));
    }
    return n <= c->filled - c->at || read_until(c, c->at + n);
}

static bool read_number(gguf_cursor *c, void *value, size_t n, const char *what) {
    if (!gguf_cursor_need(c, n, what)) return false;
    memcpy(value, c->bytes + c->at, n);
    c->at += n;
    return true;
}

bool gguf_cursor_u32(gguf_cursor *c, uint32_t *value, const char *what) {
    return read_number(c, value, sizeof *value, what);
}

bool gguf_cursor_u64(gguf_cursor *c, uint64_t *value, const char *what) {
    return read_number(c, value, sizeof *value, what);
}

/* A length and as many bytes, at most `limit`; *start is where the bytes are. */
static bool gguf_cursor_string(gguf_cursor *c, uint64_t limit, uint64_t *start, uint64_t *length,
                               const char *what) {
    if (!gguf_cursor_u64(c, length, what)) return false;
    if (*length > limit) {
        return gguf_cursor_fail(c, c->at - 8, "%s has %llu bytes, at most %llu are allowed", what,
                                (unsigned long long)*length, (unsigned long long)limit);
    }
    if (!gguf_cursor_need(c, *length, what)) return false;
    *start = c->at;
    c->at += *length;
    return true;
}

bool gguf_cursor_name(gguf_cursor *c, uint64_t limit) {
    gguf_subject *s = &c->subject;
    uint64_t start = 0, length = 0; /* gcc 12 cannot tell that they are always set */
    s->name_length = 0;
    if (!gguf_cursor_string(c, limit, &start, &length, "name")) return false;
    if (length == 0) return gguf_cursor_fail(c, start, "the name is empty");
    const uint8_t *nul = memchr(c->bytes + start, 0, length);
    if (nul) {
        return gguf_cursor_fail(c, (uint64_t)(nul - c->bytes),
                                "the name holds a NUL byte at position %llu of %llu",
                                (unsigned long long)(nul - c->bytes - start), (unsigned long long)length);
    }
    s->name_at = start, s->name_length = length;
    return true;
}

/* ---- values ---- */

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
