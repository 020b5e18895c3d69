/* GGUF files written byte by byte, right or wrong, for tests that
 * cannot use the writer they are about. */
#pragma once

#include "gguf/gguf.h"
#include "tests/support/support.h"

typedef struct bytes {
    uint8_t *data;
    size_t n, room;
} bytes;

static inline void put(bytes *b, const void *from, size_t n) {
    if (b->room - b->n < n || !b->data) b->data = realloc(b->data, b->room = 2 * (b->n + n) + 64);
    assert_non_null(b->data);
    if (n) memcpy(b->data + b->n, from, n);
    b->n += n;
}
static inline void put_u32(bytes *b, uint32_t v) { put(b, &v, 4); }
static inline void put_u64(bytes *b, uint64_t v) { put(b, &v, 8); }
static inline void put_text(bytes *b, const char *text) {
    put_u64(b, strlen(text));
    put(b, text, strlen(text));
}
static inline void put_zeros(bytes *b, size_t n) {
    void *zeros = calloc(n + 1, 1);
    assert_non_null(zeros);
    put(b, zeros, n);
    free(zeros);
}

/* Magic, version, counts. */
static inline bytes file_head(uint32_t version, uint64_t n_tensors, uint64_t n_kv) {
    bytes b = {0};
    put(&b, "GGUF", 4);
    put_u32(&b, version);
    put_u64(&b, n_tensors);
    put_u64(&b, n_kv);
    return b;
}

/* A key and the type of its value, which the caller appends. */
static inline void put_key(bytes *b, const char *key, uint32_t type) {
    put_text(b, key);
    put_u32(b, type);
}
static inline void put_array(bytes *b, uint32_t element_type, uint64_t count) {
    put_u32(b, element_type);
    put_u64(b, count);
}
static inline void put_tensor(bytes *b, const char *name, uint32_t n_dims, const uint64_t *ne, uint32_t type,
                              uint64_t offset) {
    put_text(b, name);
    put_u32(b, n_dims);
    put(b, ne, n_dims * sizeof *ne);
    put_u32(b, type);
    put_u64(b, offset);
}
static inline void pad(bytes *b, size_t alignment) {
    put_zeros(b, (alignment - b->n % alignment) % alignment);
}

/* ---- tried on the reader; both free the bytes ---- */

/* Read a copy that ends where the file ends, so that a sanitizer sees a read past the end. */
static inline bool opens(const bytes *b, model_source *m, gq_error *e, void **copy) {
    *copy = malloc(b->n ? b->n : 1);
    assert_non_null(*copy);
    if (b->n) memcpy(*copy, b->data, b->n);
    return gguf_model_memory(m, "made.gguf", *copy, b->n, e);
}

static inline void assert_accepted(bytes b) {
    model_source m;
    gq_error e;
    void *copy;
    if (!opens(&b, &m, &e, &copy)) fail_msg("refused: %s", e.text);
    model_close(&m);
    free(copy);
    free(b.data);
}

/* Refused, and the message names the file and says `first` and `second`. */
static inline void assert_refused(bytes b, const char *first, const char *second) {
    model_source m;
    gq_error e;
    void *copy;
    if (opens(&b, &m, &e, &copy)) fail_msg("accepted although: %s %s", first, second);
    if (!strstr(e.text, "made.gguf") || !strstr(e.text, first) || !strstr(e.text, second))
        fail_msg("'%s' and '%s' expected in: %s", first, second, e.text);
    model_close(&m);
    free(copy);
    free(b.data);
}
