#include "tests/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support.h"

typedef struct reader {
    const char *text, *at;
} reader;

static void fail_at(const reader *r, const char *expected) {
    fail_msg("JSON: expected %s at byte %zu: %.20s", expected, (size_t)(r->at - r->text), r->at);
}

static char next(reader *r) {
    while (isspace((unsigned char)*r->at)) r->at++;
    return *r->at;
}

static void expect(reader *r, char c) {
    if (next(r) != c) fail_at(r, (char[]){c, 0});
    r->at++;
}

static size_t utf8(char *to, unsigned code) {
    if (code < 0x80) return to[0] = (char)code, 1;
    if (code < 0x800) return to[0] = (char)(0xC0 | code >> 6), to[1] = (char)(0x80 | (code & 63)), 2;
    to[0] = (char)(0xE0 | code >> 12), to[1] = (char)(0x80 | (code >> 6 & 63)),
    to[2] = (char)(0x80 | (code & 63));
    return 3;
}

static char *string(reader *r) {
    expect(r, '"');
    const char *end = r->at; /* no escape decodes to more bytes than it has */
    while (*end && *end != '"') end += *end == '\\' && end[1] ? 2 : 1;
    char *s = malloc((size_t)(end - r->at) + 1);
    assert_non_null(s);
    size_t n = 0;
    for (; *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < ' ') fail_at(r, "a character of a string");
        if (*r->at != '\\') {
            s[n++] = *r->at;
            continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        char c = *++r->at;
        const char *known = c ? strchr(from, c) : NULL;
        char digits[5] = "";
        if (known) {
            s[n++] = to[known - from];
        } else if (c == 'u' && strlen(r->at) > 4) {
            memcpy(digits, r->at + 1, 4);
            n += utf8(s + n, (unsigned)strtoul(digits, NULL, 16));
            r->at += 4;
        } else
            fail_at(r, "an escape");
    }
    r->at++;
    s[n] = 0;
    return s;
}

static void value(reader *r, json *j);

static void container(reader *r, json *j, char close) {
    size_t room = 0;
    r->at++;
    if (next(r) == close) {
        r->at++;
        return;
    }
    for (;;) {
        if (j->n == room) j->items = realloc(j->items, (room = 2 * room + 8) * sizeof *j->items);
        assert_non_null(j->items);
        json *item = &j->items[j->n++];
        *item = (json){0};
        if (close == '}') {
            next(r);
            item->key = string(r);
            expect(r, ':');
        }
        value(r, item);
        if (next(r) == close) break;
        expect(r, ',');
    }
    r->at++;
}

static bool word(reader *r, const char *w) {
    bool here = strncmp(r->at, w, strlen(w)) == 0;
    if (here) r->at += strlen(w);
    return here;
}

static void value(reader *r, json *j) {
    char c = next(r), *end = NULL;
    if (c == '{' || c == '[') {
        j->kind = c == '{' ? JSON_OBJECT : JSON_ARRAY;
        container(r, j, c == '{' ? '}' : ']');
    } else if (c == '"') {
        j->kind = JSON_STRING;
        j->text = string(r);
    } else if (word(r, "true")) {
        j->kind = JSON_BOOL, j->number = 1;
    } else if (word(r, "false")) {
        j->kind = JSON_BOOL;
    } else if (!word(r, "null")) {
        j->kind = JSON_NUMBER;
        j->number = strtod(r->at, &end);
        if (end == r->at) fail_at(r, "a value");
        r->at = end;
    }
}

json *json_parse(const char *text) {
    reader r = {text, text};
    json *j = calloc(1, sizeof *j);
    assert_non_null(j);
    value(&r, j);
    if (next(&r)) fail_at(&r, "the end");
    return j;
}

json *json_file(const char *path) {
    char *text = (char *)read_whole(path, NULL);
    json *j = json_parse(text);
    free(text);
    return j;
}

static void release(json *j) {
    for (size_t i = 0; i < j->n; i++) release(&j->items[i]);
    free(j->items), free(j->key), free(j->text);
}

void json_free(json *j) {
    if (j) release(j);
    free(j);
}

const json *json_get(const json *j, const char *key) {
    for (size_t i = 0; j && i < j->n; i++)
        if (j->items[i].key && strcmp(j->items[i].key, key) == 0) return &j->items[i];
    return NULL;
}

const json *json_need(const json *j, const char *key) {
    const json *found = json_get(j, key);
    if (!found) fail_msg("JSON: no member '%s'", key);
    return found;
}

const char *json_text(const json *j, const char *key, const char *absent) {
    const json *found = json_get(j, key);
    return found && found->kind == JSON_STRING ? found->text : absent;
}

double json_number(const json *j, const char *key, double absent) {
    const json *found = json_get(j, key);
    return found && found->kind == JSON_NUMBER ? found->number : absent;
}

bool json_true(const json *j, const char *key) {
    const json *found = json_get(j, key);
    return found && found->kind == JSON_BOOL && found->number != 0;
}
