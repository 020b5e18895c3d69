#include <stdlib.h>

#include "gguf/cursor.h"

enum { STRING_HEAD = 8, ARRAY_HEAD = 12 };

static const struct {
    const char *name;
    uint32_t size;  /* bytes; 0: varies */
    uint32_t least; /* bytes that the smallest value takes */
} value_types[] = {
    [GGUF_U8] = {"u8", 1, 1},
    [GGUF_INT8] = {"i8", 1, 1},
    [GGUF_U16] = {"u16", 2, 2},
    [GGUF_INT16] = {"i16", 2, 2},
    [GGUF_U32] = {"u32", 4, 4},
    [GGUF_INT32] = {"i32", 4, 4},
    [GGUF_FLOAT32] = {"f32", 4, 4},
    [GGUF_BOOL] = {"bool", 1, 1},
    [GGUF_STRING] = {"string", 0, STRING_HEAD},
    [GGUF_ARRAY] = {"array", 0, ARRAY_HEAD},
    [GGUF_U64] = {"u64", 8, 8},
    [GGUF_INT64] = {"i64", 8, 8},
    [GGUF_FLOAT64] = {"f64", 8, 8},
};
enum { VALUE_TYPES = sizeof value_types / sizeof *value_types };

const char *gguf_value_name(uint32_t type) { return type < VALUE_TYPES ? value_types[type].name : "unknown"; }
uint32_t gguf_value_size(uint32_t type) { return type < VALUE_TYPES ? value_types[type].size : 0; }

/* `n` values of a type that has a fixed size; the caller knows that n x size cannot wrap. */
static bool skip_fixed(gguf_cursor *c, uint32_t type, uint64_t n) {
    uint64_t size = n * value_types[type].size;
    if (!gguf_cursor_need(c, size, value_types[type].name)) return false;
    for (uint64_t i = 0; type == GGUF_BOOL && i < n; i++) {
        unsigned byte = c->bytes[c->at + i];
        if (byte > 1) return gguf_cursor_fail(c, c->at + i, "a bool is stored as %u, expected 0 or 1", byte);
    }
    c->at += size;
    return true;
}

static bool array_head(gguf_cursor *c, uint32_t *type, uint64_t *count) {
    if (!gguf_cursor_u32(c, type, "array element type")) return false;
    if (*type >= VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "array element type %u is unknown, expected 0 to %d", *type,
                                VALUE_TYPES - 1);
    if (!gguf_cursor_u64(c, count, "array length")) return false;
    uint64_t left = gguf_cursor_left(c);
    if (*count > left / value_types[*type].least) {
        return gguf_cursor_fail(
            c, c->at - 8, "array of %llu elements of type %s, but only %llu bytes are left in the file",
            (unsigned long long)*count, value_types[*type].name, (unsigned long long)left);
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
    if (type >= VALUE_TYPES)
        return gguf_cursor_fail(c, c->at - 4, "value type %u is unknown, expected 0 to %d", type,
                                VALUE_TYPES - 1);
    while (depth >= 0) {
        uint32_t t = level[depth].type;
        if (level[depth].left == 0) {
            depth--;
        } else if (value_types[t].size) {
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

const gguf_kv *gguf_find(const gguf_kv *kv, uint64_t n, const char *key) {
    for (uint64_t i = 0; i < n; i++)
        if (strcmp(kv[i].key, key) == 0) return &kv[i];
    return NULL;
}

bool gguf_kv_int(const gguf_kv *kv, int64_t *value) {
    if (!kv || kv->size > 8) return false;
    uint64_t bits = 0;
    memcpy(&bits, kv->value, kv->size);
    switch (kv->type) {
    case GGUF_INT8:
        *value = (int8_t)bits;
        return true;
    case GGUF_INT16:
        *value = (int16_t)bits;
        return true;
    case GGUF_INT32:
        *value = (int32_t)bits;
        return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_INT64:
        *value = (int64_t)bits;
        return true;
    case GGUF_U64:
        *value = (int64_t)bits;
        return bits <= INT64_MAX;
    default:
        return false;
    }
}

bool gguf_kv_float(const gguf_kv *kv, double *value) {
    float single;
    if (kv && kv->type == GGUF_FLOAT64) {
        memcpy(value, kv->value, sizeof *value);
        return true;
    }
    if (!kv || kv->type != GGUF_FLOAT32) return false;
    memcpy(&single, kv->value, sizeof single);
    *value = single;
    return true;
}

bool gguf_kv_string(const gguf_kv *kv, const char **text, uint64_t *length) {
    if (!kv || kv->type != GGUF_STRING) return false;
    memcpy(length, kv->value, sizeof *length);
    *text = (const char *)kv->value + STRING_HEAD;
    return true;
}

bool gguf_kv_array(const gguf_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements) {
    if (!kv || kv->type != GGUF_ARRAY) return false;
    memcpy(element_type, kv->value, sizeof *element_type);
    memcpy(count, kv->value + sizeof *element_type, sizeof *count);
    *elements = kv->value + ARRAY_HEAD;
    return true;
}
