/* A JSON document, written as it comes. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct emitter {
    FILE *to;
    int depth, inline_from; /* objects at inline_from and deeper stay on one line; 0: none */
    char closing[16];
    bool filled[16];
} emitter;

void emit_start(emitter *j, FILE *to);
/* `key` is NULL inside an array. kind is '{' or '['. */
void emit_open(emitter *j, const char *key, char kind);
void emit_open_line(emitter *j, const char *key, char kind); /* all of it on one line */
void emit_close(emitter *j);
/* Any bytes: what is not UTF-8 becomes U+FFFD, '<' is escaped so that a page may hold the document. */
void emit_text(emitter *j, const char *key, const char *text);
void emit_bytes(emitter *j, const char *key, const char *text, size_t length); /* may hold NUL */
void emit_count(emitter *j, const char *key, uint64_t n);
void emit_signed(emitter *j, const char *key, int64_t n);
void emit_number(emitter *j, const char *key, double value); /* NaN and infinity: null */
void emit_bool(emitter *j, const char *key, bool value);
void emit_end(emitter *j); /* of the document */

#endif
