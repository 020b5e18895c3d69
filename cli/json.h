/* Reads JSON by jansson; base/json.h writes it. */
#pragma once

#include <jansson.h>

#include "base/error.h"

char *json_bytes_of(const json_t *text); /* the bytes that were written, malloc'ed, with a NUL */
/* Reads a text of n bytes from anywhere, within bounds for depth and memory; `name` is for messages. The
 * caller releases the value; NULL: *e says where and why. */
json_t *json_read(const char *text, size_t n, const char *name, gq_error *e);
