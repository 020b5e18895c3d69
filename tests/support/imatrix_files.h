/* imatrix files written byte by byte, right or wrong. */
#pragma once

#include <zlib.h>

#include "imatrix/imatrix.h"
#include "tests/support/support.h"

typedef struct blob {
    uint8_t *bytes;
    size_t n, room;
} blob;

static inline void put(blob *b, const void *bytes, size_t n) {
    if (b->room < b->n + n + 1) b->bytes = realloc(b->bytes, b->room = 2 * (b->n + n) + 64);
    assert_non_null(b->bytes);
    if (n) memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

static inline void put32(blob *b, int64_t x) {
    uint32_t u = (uint32_t)x;
    put(b, &u, sizeof u);
}

static inline void put64(blob *b, uint64_t x) { put(b, &x, sizeof x); }

static inline void put_string(blob *b, const char *text) {
    put64(b, strlen(text));
    put(b, text, strlen(text));
}

/* ---- the legacy layout: put32(n), entries, trailer ---- */

static inline void put_entry(blob *b, const char *name, int32_t calls, const float *values, int32_t n) {
    put32(b, (int32_t)strlen(name));
    put(b, name, strlen(name));
    put32(b, calls);
    put32(b, n);
    put(b, values, (size_t)n * sizeof *values);
}

static inline void put_trailer(blob *b, int32_t chunks, const char *dataset) {
    put32(b, chunks);
    put32(b, (int32_t)strlen(dataset));
    put(b, dataset, strlen(dataset));
}

/* ---- the GGUF layout ---- */

typedef struct piece {
    const char *name;
    uint64_t ne[2];
    const float *data;
    uint32_t type; /* GGUF type id; its elements count as 4 bytes */
} piece;

enum { META_NONE = 0, META_DATASETS = 1, META_COUNT = 2, META_SIZE = 4, META_ALL = 7 };

/* extra: further raw key-value pairs, n_extra of them. */
static inline blob container(const piece *pieces, size_t n, unsigned meta, const blob *extra,
                             uint64_t n_extra) {
    blob b = {0};
    uint64_t n_kv = 1 + !!(meta & META_DATASETS) + !!(meta & META_COUNT) + !!(meta & META_SIZE) + n_extra;
    put(&b, "GGUF", 4), put32(&b, 3), put64(&b, n), put64(&b, n_kv);
    put_string(&b, "general.type"), put32(&b, 8), put_string(&b, "imatrix");
    if (meta & META_DATASETS) {
        put_string(&b, "imatrix.datasets"), put32(&b, 9), put32(&b, 8), put64(&b, 2);
        put_string(&b, "first.txt"), put_string(&b, "second\n.txt");
    }
    if (meta & META_COUNT) put_string(&b, "imatrix.chunk_count"), put32(&b, 4), put32(&b, 40);
    if (meta & META_SIZE) put_string(&b, "imatrix.chunk_size"), put32(&b, 4), put32(&b, 256);
    if (extra) put(&b, extra->bytes, extra->n);
    uint64_t offset = 0;
    for (size_t i = 0; i < n; i++) {
        put_string(&b, pieces[i].name), put32(&b, 2);
        put64(&b, pieces[i].ne[0]), put64(&b, pieces[i].ne[1]);
        put32(&b, pieces[i].type), put64(&b, offset);
        offset += (pieces[i].ne[0] * pieces[i].ne[1] * 4 + 31) / 32 * 32;
    }
    static const uint8_t zeros[32];
    put(&b, zeros, (32 - b.n % 32) % 32);
    for (size_t i = 0; i < n; i++) {
        put(&b, pieces[i].data, pieces[i].ne[0] * pieces[i].ne[1] * 4);
        put(&b, zeros, (32 - b.n % 32) % 32);
    }
    return b;
}

/* ---- both ---- */

/* One gzip member with b inside. */
static inline blob zipped(const blob *b) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    blob packed = {.room = deflateBound(&z, b->n) + 1};
    packed.bytes = malloc(packed.room);
    assert_non_null(packed.bytes);
    z.next_in = b->bytes, z.avail_in = (uInt)b->n;
    z.next_out = packed.bytes, z.avail_out = (uInt)packed.room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    packed.n = z.total_out;
    deflateEnd(&z);
    return packed;
}

/* Read the first n bytes of b as a file called "matrix". A copy of exactly that size, so that the address
 * sanitizer sees a byte too far. */
static inline bool read_part(imatrix *im, const blob *b, size_t n, gq_error *e) {
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n) memcpy(copy, b->bytes, n);
    gq_file file;
    assert_true(gq_file_memory(&file, "matrix", copy, n, copy, e));
    return imatrix_read(im, &file, e);
}

static inline bool read_blob(imatrix *im, const blob *b, gq_error *e) { return read_part(im, b, b->n, e); }

static inline void read_good(imatrix *im, blob b) {
    gq_error e;
    if (!read_blob(im, &b, &e)) fail_msg("%s", e.text);
    free(b.bytes);
}

static inline bool holds(const char *text, const char *part) { return text && strstr(text, part); }

/* The bytes are refused, the message holding each of the texts (NULL: no further text). */
static inline void refused(blob b, const char *text1, const char *text2) {
    imatrix im;
    gq_error e;
    if (read_blob(&im, &b, &e)) {
        imatrix_free(&im);
        fail_msg("accepted, expected a message with '%s'", text1);
    }
    free(b.bytes);
    if (!holds(e.text, "matrix") || !holds(e.text, text1) || (text2 && !holds(e.text, text2)))
        fail_msg("'%s' does not hold '%s' and '%s'", e.text, text1, text2 ? text2 : "");
}

/* The bytes can be read, but the check refuses them. */
static inline void check_refuses(blob b, const char *text1, const char *text2) {
    imatrix im;
    gq_error e;
    read_good(&im, b);
    assert_false(imatrix_check(&im, "matrix", &e));
    imatrix_free(&im);
    if (!holds(e.text, "matrix") || !holds(e.text, text1) || !holds(e.text, text2))
        fail_msg("'%s' does not hold '%s' and '%s'", e.text, text1, text2);
}
