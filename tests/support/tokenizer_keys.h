/* Metadata of a vocabulary, made by hand. */
#pragma once

#include "forward/tokens/tokenizer.h"
#include "tests/support/gguf_bytes.h"

static uint64_t random_state = 1;
static inline unsigned random_below(unsigned n) {
    random_state = random_state * 6364136223846793005 + 1442695040888963407;
    return (unsigned)(random_state >> 33) % n;
}

enum { MOST_KEYS = 16 };
typedef struct keys {
    model_kv kv[MOST_KEYS];
    bytes values[MOST_KEYS];
    size_t n;
} keys;

static inline bytes *add_key(keys *k, const char *name, uint32_t type) {
    k->kv[k->n] = (model_kv){.key = name, .type = type};
    return &k->values[k->n++];
}
static inline void add_text(keys *k, const char *name, const char *text) {
    put_text(add_key(k, name, GGUF_STRING), text);
}
static inline void add_number(keys *k, const char *name, uint32_t number) {
    put_u32(add_key(k, name, GGUF_U32), number);
}
static inline void add_switch(keys *k, const char *name, bool on) {
    put(add_key(k, name, GGUF_BOOL), &(uint8_t){on}, 1);
}
static inline void add_texts(keys *k, const char *name, const char *const *texts, size_t n) {
    bytes *b = add_key(k, name, GGUF_ARRAY);
    put_array(b, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(b, texts[i]);
}
static inline void add_values(keys *k, const char *name, uint32_t type, const void *values, size_t n) {
    bytes *b = add_key(k, name, GGUF_ARRAY);
    put_array(b, type, n);
    put(b, values, 4 * n);
}

/* A map of characters: 'A' becomes nothing, "A(" and "aab" the texts '(' and "1 b". Nodes have their bases at
 * multiples of 256; that of a child by byte c is unit base ^ c, and the unit at the child's base has its text. */
static inline void add_map(keys *k) {
    enum { UNITS = 6 * 256, ENDS = 1 << 8, BASE = 10, AA = 512, AAB = 768, A = 1024, A_OPEN = 1280 };
    static const char texts[] = "\0(\0"
                                "1 b";
    uint32_t units[UNITS] = {[0] = 256 << BASE};
    units[256 ^ 'a'] = 'a' | (uint32_t)(256 ^ 'a' ^ AA) << BASE;
    units[AA ^ 'a'] = 'a' | (uint32_t)(AA ^ 'a' ^ AAB) << BASE;
    units[AAB ^ 'b'] = 'b' | ENDS | (uint32_t)(AAB ^ 'b' ^ 1) << BASE, units[1] = 3;
    units[256 ^ 'A'] = 'A' | ENDS | (uint32_t)(256 ^ 'A' ^ A) << BASE, units[A] = 0;
    units[A ^ '('] = '(' | ENDS | (uint32_t)(A ^ '(' ^ A_OPEN) << BASE, units[A_OPEN] = 1;
    bytes *b = add_key(k, "tokenizer.ggml.precompiled_charsmap", GGUF_ARRAY);
    put_array(b, GGUF_U8, 4 + sizeof units + sizeof texts);
    put_u32(b, sizeof units), put(b, units, sizeof units), put(b, texts, sizeof texts);
}

static inline tokenizer *make(keys *k, gq_error *e) {
    for (size_t i = 0; i < k->n; i++) k->kv[i].value = k->values[i].data, k->kv[i].size = k->values[i].n;
    return tokenizer_new("made.gguf", k->kv, k->n, e);
}
static inline void free_keys(keys *k) {
    for (size_t i = 0; i < k->n; i++) free(k->values[i].data);
    *k = (keys){0};
}
