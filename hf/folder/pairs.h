/* Metadata that is being made: pairs in the order in which they were first set. */
#pragma once

#include "base/name_index.h"
#include "gguf/model.h"

typedef struct hf_pairs {
    const char *prefix; /* for keys that begin with '.': the architecture */
    model_kv *kv;       /* key and value are malloc'ed */
    size_t n, capacity;
    uint8_t *open; /* the array that is being made */
    size_t open_bytes, open_capacity;
    uint64_t open_count;
} hf_pairs;

/* Each sets a pair; a key that is there already gets the new value. A key that begins with '.' gets the
 * prefix in front. */
bool hf_pairs_u32(hf_pairs *p, const char *key, uint32_t value, gq_error *e);
bool hf_pairs_i32(hf_pairs *p, const char *key, int32_t value, gq_error *e);
bool hf_pairs_f32(hf_pairs *p, const char *key, float value, gq_error *e);
bool hf_pairs_bool(hf_pairs *p, const char *key, bool value, gq_error *e);
bool hf_pairs_string(hf_pairs *p, const char *key, const char *text, size_t n, gq_error *e);
bool hf_pairs_text(hf_pairs *p, const char *key, const char *text, gq_error *e); /* NUL-terminated */
/* An array: its elements are added one by one, raw (numbers, little-endian; a bool is a byte) or as strings;
 * then the pair is set. An array without elements sets nothing. */
bool hf_pairs_add(hf_pairs *p, const void *element, size_t size, gq_error *e);
bool hf_pairs_add_i32(hf_pairs *p, int32_t value, gq_error *e);
bool hf_pairs_add_f32(hf_pairs *p, float value, gq_error *e);
bool hf_pairs_add_bool(hf_pairs *p, bool value, gq_error *e);
bool hf_pairs_add_string(hf_pairs *p, const char *text, size_t n, gq_error *e);
bool hf_pairs_array(hf_pairs *p, const char *key, uint32_t element_type, gq_error *e);
/* NULL: no such pair. */
const model_kv *hf_pairs_find(const hf_pairs *p, const char *key);
void hf_pairs_remove(hf_pairs *p, const char *key);
void hf_pairs_free(hf_pairs *p);
