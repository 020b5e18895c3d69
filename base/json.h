/* Writes JSON as it comes, since a model may have 10^5 tensors: nothing of it is kept.
 *
 * Names in a model may be any bytes, and a JSON text is Unicode: a byte that is not UTF-8, 0x80 to 0xFF, is
 * written as U+EF80 to U+EFFF, which are for private use. A name that has one of these itself is taken for
 * bytes there, so that reading gives back what was written, whatever it was. What is written is ASCII without
 * control characters and '<', so that a page may hold the document and a terminal show it. */
#pragma once

#include <stdio.h>

#include "base/error.h"

enum {
    JSON_RAW_BYTE = 0xEF00, /* plus a byte that is not UTF-8: the code point that stands for it */
    JSON_ESCAPED = 13,      /* bytes of two escapes and a NUL */
};

typedef struct json_writer {
    FILE *to;
    /* For programs of this library's own: numbers with all their digits, also those that JSON lacks (NaN,
     * Infinity), and no member under its earlier name. */
    bool exact;
    int depth;
    struct json_level {
        char closing; /* bracket */
        bool lines;   /* each value has a line of its own */
        bool filled;  /* with a value */
    } levels[12];
} json_writer;

/* Begins a document, an object or an array; kind 0: it is none, or opened later. */
json_writer json_start(FILE *to, char kind);
/* Opens an object (kind '{') or an array ('['). `key` is NULL inside an array. */
void json_open(json_writer *j, const char *key, char kind);       /* on one line */
void json_open_lines(json_writer *j, const char *key, char kind); /* a line for each value */
void json_close(json_writer *j);
void json_end(json_writer *j); /* of the document; closes what is open */

/* Members of the object that is open; key NULL: values of the array. One that had another name in the release
 * before is written under both. */
void json_put_text(json_writer *j, const char *key, const char *text); /* NULL: null */
void json_put_bytes(json_writer *j, const char *key, const char *text, size_t n);
void json_put_count(json_writer *j, const char *key, uint64_t n); /* above 2^63 - 1: its digits as a text */
void json_put_signed(json_writer *j, const char *key, int64_t n);
void json_put_number(json_writer *j, const char *key, double value); /* NaN and infinity: null */
void json_put_bool(json_writer *j, const char *key, bool value);
void json_put_texts(json_writer *j, const char *key, const char *const *texts, size_t n);
/* Writes the first character of a text of n bytes as it stands between quotes; returns its bytes in the text. */
size_t json_escape(char to[JSON_ESCAPED], const char *text, size_t n);
/* Returns a member's name of the release before: `key`, where that is the same. */
const char *json_old_name(const char *key);
