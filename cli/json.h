/* JSON, which jansson writes and reads.
 *
 * A document is written as it comes, since a model may have 10^5 tensors: what is opened and closed here is
 * never in memory, what stands in it (a tensor, say) is a value of jansson's.
 *
 * Names in a model may be any bytes, and a JSON text is Unicode: a byte that is not UTF-8, 0x80 to 0xFF, is
 * written as U+EF80 to U+EFFF, which are for private use. A name that has one of these itself is taken for
 * bytes there, so that reading gives back what was written, whatever it was. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

typedef struct emitter {
    FILE *to;
    int depth;
    bool filled[8];
    char closing[8];
} emitter;

/* Begins a document, before any value is made, and opens its object or array; kind 0: it is none, or opened later. */
void emit_start(emitter *j, FILE *to, char kind);
/* Opens an object (kind '{') or an array ('['), up to seven deep. `key` is NULL inside an array. */
void emit_open(emitter *j, const char *key, char kind);
void emit_close(emitter *j);
/* A value, which is taken over, on one line. Nothing in it is '<', a control character or beyond ASCII, so
 * that a page may hold the document and a terminal show it. */
void json_emit(emitter *j, const char *key, json_t *value);
void emit_members(emitter *j, json_t *object); /* of the object that is open */
void emit_end(emitter *j);                     /* of the document; closes what is open */
void print_json_object(FILE *to, json_t *o);   /* a document of one object, which is taken over */

json_t *json_of_text(const char *text);
json_t *json_of_bytes(const char *text, size_t n);
json_t *json_of_count(uint64_t n);       /* above 2^63 - 1: its digits as a text */
json_t *json_of_number(double value);    /* NaN and infinity: null */
char *json_bytes_of(const json_t *text); /* the bytes again, malloc'ed, with a NUL */

/* Members of an object. One that had another name before is there under both, for one release. */
void set_value(json_t *object, const char *key, json_t *value); /* which is taken over */
void set_text(json_t *object, const char *key, const char *text);
void set_count(json_t *object, const char *key, uint64_t n);
void set_number(json_t *object, const char *key, double value);
void set_bool(json_t *object, const char *key, bool value);
json_t *set_array(json_t *object, const char *key); /* empty; belongs to the object */
/* Returns a member's name of the release before: `key`, where that is the same. */
const char *json_old_name(const char *key);

/* Reads a text of n bytes from anywhere, within bounds for depth and memory; `name` is for messages. The
 * caller releases the value; NULL: *e says where and why. */
json_t *json_read(const char *text, size_t n, const char *name, gq_error *e);
