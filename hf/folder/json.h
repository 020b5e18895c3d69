/* JSON from files that nobody vouches for, read by jansson within bounds. */
#pragma once

#include <jansson.h>

#include "base/error.h"

enum {
    HF_JSON_DEPTH = 64,         /* brackets inside brackets */
    HF_JSON_VALUES = 1 << 24,   /* values in a text: some 100 bytes of memory each */
    HF_JSON_ONE_VALUE = 1 << 0, /* flag: a key that is there twice is an error; else the last value counts */
};

/* Parses n bytes, which must be an object. `name` is the file for messages. NaN, Infinity, -Infinity
 * and integers of more than 64 bits, which Python writes, become empty strings, so that only their use as a
 * number is an error. The caller releases the value with json_decref. NULL: *e says why, with line and
 * column. */
json_t *hf_json_parse(const char *name, const char *text, size_t n, unsigned flags, gq_error *e);
/* Makes one string, "left right", of each pair ["left", "right"] in lists under a key, in the text itself;
 * pairs with an empty half or a space in one stay. Whether the text is JSON at all does not change. */
void hf_json_join_pairs(char *text, size_t n, const char *key);
/* Returns a string's text; NULL: the value is no string, or one with a NUL byte in it. */
const char *hf_json_text(const json_t *v);
/* Whether a value is this text. */
bool hf_json_is(const json_t *v, const char *text);
