#include "publish/jinja/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

enum { MOST_BYTES = 16 << 20, BLOCK_BYTES = 1 << 16, MOST_DEPTH = 32 };

typedef struct jinja_block {
    struct jinja_block *before;
    size_t used, size;
    _Alignas(max_align_t) char bytes[];
} jinja_block;

void *jinja_take(jinja_memory *m, size_t n) {
    size_t size = n > BLOCK_BYTES ? n : BLOCK_BYTES;
    if (n > MOST_BYTES) return m->is_full = true, NULL;
    n = (n + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!m->last || n > m->last->size - m->last->used) {
        if (size < n) size = n;
        jinja_block *block = m->total + size <= MOST_BYTES ? calloc(1, sizeof *block + size) : NULL;
        if (!block) return m->is_full = true, NULL;
        *block = (jinja_block){.before = m->last, .size = size};
        m->last = block, m->total += size;
    }
    void *taken = m->last->bytes + m->last->used;
    m->last->used += n;
    return taken;
}

void jinja_memory_free(jinja_memory *m) {
    for (jinja_block *block; (block = m->last); free(block)) m->last = block->before;
}

/* ---- values ---- */

jinja_value jinja_number(int64_t n) { return (jinja_value){.kind = JINJA_NUMBER, .number = n}; }
jinja_value jinja_bool(bool is) { return (jinja_value){.kind = JINJA_BOOL, .number = is}; }
jinja_value jinja_text_value(const char *at, size_t n) {
    return (jinja_value){.kind = JINJA_TEXT, .text = {at, n}};
}
jinja_value jinja_text_of(const char *text) { return jinja_text_value(text, strlen(text)); }

jinja_value jinja_join(jinja_memory *m, jinja_text a, jinja_text b) {
    char *text = a.n && b.n ? jinja_take(m, a.n + b.n) : NULL;
    if (!text) return (jinja_value){.kind = JINJA_TEXT, .text = a.n ? a : b};
    memcpy(text, a.at, a.n), memcpy(text + a.n, b.at, b.n);
    return jinja_text_value(text, a.n + b.n);
}

jinja_value jinja_collection(jinja_memory *m, jinja_kind kind) {
    jinja_list *list = jinja_take(m, sizeof *list);
    return list ? (jinja_value){.kind = kind, .list = list} : (jinja_value){.kind = JINJA_UNDEFINED};
}

void jinja_add(jinja_memory *m, jinja_value to, jinja_value item) {
    if (to.kind != JINJA_LIST && to.kind != JINJA_DICT) return;
    jinja_list *l = to.list;
    if (l->n == l->capacity) {
        size_t capacity = l->n ? 2 * l->n : 8;
        jinja_value *items = jinja_take(m, capacity * sizeof *items);
        if (!items) return;
        if (l->n) memcpy(items, l->items, l->n * sizeof *items);
        l->items = items, l->capacity = capacity;
    }
    l->items[l->n++] = item;
}

jinja_value *jinja_find(jinja_value dict, jinja_text key) {
    for (size_t i = 0; dict.kind == JINJA_DICT && i + 1 < dict.list->n; i += 2) {
        jinja_text its = dict.list->items[i].text;
        if (its.n == key.n && !memcmp(its.at, key.at, key.n)) return &dict.list->items[i + 1];
    }
    return NULL;
}

void jinja_set(jinja_memory *m, jinja_value dict, jinja_text key, jinja_value value) {
    jinja_value *old = jinja_find(dict, key);
    if (old)
        *old = value;
    else
        jinja_add(m, dict, jinja_text_value(key.at, key.n)), jinja_add(m, dict, value);
}

/* ---- what they say ---- */

bool jinja_text_is(jinja_text a, const char *b) { return strlen(b) == a.n && !memcmp(a.at, b, a.n); }

bool jinja_text_has(jinja_text text, jinja_text piece) {
    return !piece.n || (text.n && memmem(text.at, text.n, piece.at, piece.n));
}

bool jinja_is_true(jinja_value v) {
    switch (v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
    case JINJA_NUMBER:
        return v.number;
    case JINJA_TEXT:
        return v.text.n;
    case JINJA_LIST:
    case JINJA_DICT:
        return v.list->n;
    case JINJA_MACRO:
    case JINJA_FUNCTION:
        break;
    }
    return true;
}

bool jinja_equal(jinja_value a, jinja_value b, int depth) {
    bool numbers =
        (a.kind == JINJA_NUMBER || a.kind == JINJA_BOOL) && (b.kind == JINJA_NUMBER || b.kind == JINJA_BOOL);
    if (numbers) return a.number == b.number;
    if (a.kind != b.kind || depth > MOST_DEPTH) return false;
    if (a.kind == JINJA_TEXT) return a.text.n == b.text.n && !memcmp(a.text.at, b.text.at, a.text.n);
    if (a.kind != JINJA_LIST && a.kind != JINJA_DICT)
        return a.kind == JINJA_NONE || a.kind == JINJA_UNDEFINED || a.number == b.number;
    bool equal = a.list->n == b.list->n;
    for (size_t i = 0; equal && i < a.list->n; i++)
        equal = jinja_equal(a.list->items[i], b.list->items[i], depth + 1);
    return equal;
}

static jinja_text jinja_digits(jinja_memory *m, int64_t number) {
    enum { ROOM = 24 };
    char *digits = jinja_take(m, ROOM);
    if (!digits) return (jinja_text){"", 0};
    return (jinja_text){digits, (size_t)snprintf(digits, ROOM, "%" PRId64, number)};
}

bool jinja_print(jinja_memory *m, jinja_value v, jinja_text *to) {
    *to = v.kind == JINJA_TEXT     ? v.text
          : v.kind == JINJA_NUMBER ? jinja_digits(m, v.number)
          : v.kind == JINJA_NONE   ? jinja_text_of("None").text
          : v.kind == JINJA_BOOL   ? jinja_text_of(v.number ? "True" : "False").text
                                   : jinja_text_of("").text;
    return v.kind <= JINJA_TEXT;
}

static jinja_text jinja_json_text(jinja_memory *m, jinja_text text) {
    enum { LONGEST = 6 }; /* of an escaped byte */
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    char *to = jinja_take(m, text.n * LONGEST + 2 + 1), *at = to;
    if (!to) return (jinja_text){"", 0};
    *at++ = '"';
    for (size_t i = 0; i < text.n; i++) {
        const char *escape = text.at[i] ? strchr(plain, text.at[i]) : NULL;
        if (escape)
            *at++ = '\\', *at++ = letters[escape - plain];
        else if ((unsigned char)text.at[i] < ' ')
            at += sprintf(at, "\\u%04x", (unsigned)text.at[i]);
        else
            *at++ = text.at[i];
    }
    *at++ = '"';
    return (jinja_text){to, (size_t)(at - to)};
}

jinja_text jinja_json(jinja_memory *m, jinja_value v, int depth) {
    if (v.kind == JINJA_TEXT) return jinja_json_text(m, v.text);
    if (v.kind == JINJA_BOOL) return jinja_text_of(v.number ? "true" : "false").text;
    if (v.kind == JINJA_NUMBER) return jinja_digits(m, v.number);
    if ((v.kind != JINJA_LIST && v.kind != JINJA_DICT) || depth > MOST_DEPTH)
        return jinja_text_of("null").text;
    bool is_dict = v.kind == JINJA_DICT;
    jinja_text text = jinja_text_of(is_dict ? "{" : "[").text;
    for (size_t i = 0; i < v.list->n && !m->is_full; i++) {
        const char *gap = !i ? "" : is_dict && i % 2 ? ": " : ", ";
        text = jinja_join(m, text, jinja_text_of(gap).text).text;
        text = jinja_join(m, text, jinja_json(m, v.list->items[i], depth + 1)).text;
    }
    return jinja_join(m, text, jinja_text_of(is_dict ? "}" : "]").text).text;
}
