/* Values of metadata: their types, and pairs read as numbers and texts. */
#pragma once

#include "gguf/model.h"

/* Returns the name of a value type: "u32"; "unknown" for unknown numbers. */
const char *gguf_value_name(uint32_t type);
/* Returns the bytes of a value of a type; 0 where they vary (strings, arrays) and for unknown numbers. */
uint32_t gguf_value_size(uint32_t type);

/* Whether an integer type holds a number of this magnitude, below 0 or not. */
bool gguf_value_holds(uint32_t type, bool negative, uint64_t magnitude);

/* Finds a pair by its whole key, from the first pair on; NULL: there is none. For many keys there is
 * base/name_index.h. */
const model_kv *model_kv_find(const model_kv *kv, uint64_t n, const char *key);
/* Convert a value; false: its type does not fit, or kv is NULL. Any integer type is read as int64_t (false: a
 * u64 above INT64_MAX), f32 and f64 as double. */
bool model_kv_int(const model_kv *kv, int64_t *value);
bool model_kv_float(const model_kv *kv, double *value);
/* Points *text to the bytes of a string value, *length of them: not NUL-terminated, may hold anything. */
bool model_kv_string(const model_kv *kv, const char **text, uint64_t *length);
/* Whether a value is this text. */
bool model_kv_is_text(const model_kv *kv, const char *text);
/* Reads an array's head: the type and number of its elements. *elements points to the first of them. */
bool model_kv_array(const model_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements);
