/* Models that are written from arrays. A builder collects a GGUF header (gguf/gguf.h), with metadata converted
 * to the raw bytes that GGUF stores, and for each tensor a borrowed pointer to its bytes. A value that its
 * type cannot hold, or a tensor whose bytes do not fit its type and shape, is refused when it is set. Nothing
 * is written before gq_gguf_builder_write: the complete header then fixes the offset of each tensor, and header,
 * tensors and the zeros between them are written in one go (quantize/files.c), so that the file gets its name
 * only when it is whole. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "gguf/gguf.h"
#include "quantize/gquant_arrays.h"
#include "quantize/quantize.h"

struct gq_gguf_builder {
    gguf_header *header;
    file_piece *data; /* per tensor */
    size_t n, capacity;
};

gq_gguf_builder *gq_gguf_builder_new(gq_error *e) {
    gq_gguf_builder *b = calloc(1, sizeof *b);
    if (!b) return gq_fail_memory(e, sizeof *b), NULL;
    b->header = gguf_header_new(e);
    if (b->header) return b;
    free(b);
    return NULL;
}

void gq_gguf_builder_free(gq_gguf_builder *b) {
    if (!b) return;
    gguf_header_free(b->header);
    free(b->data);
    free(b);
}

/* ---- metadata ---- */

static uint32_t value_type_named(const char *name) {
    uint32_t type = 0;
    while (type <= GGUF_FLOAT64 && strcmp(gguf_value_name(type), name) != 0) type++;
    return type;
}

static bool whole_number(uint32_t type, const gq_value *v, uint64_t *bits) {
    bool negative = v->kind == GQ_SIGNED && v->as_signed < 0;
    /* little-endian: the first bytes are the narrower number */
    *bits = v->kind == GQ_SIGNED ? (uint64_t)v->as_signed : v->as_unsigned;
    return (v->kind == GQ_SIGNED || v->kind == GQ_UNSIGNED) &&
           gguf_value_holds(type, negative, negative ? 0 - *bits : *bits);
}

/* Puts a value of a type with a fixed size into `bytes` and returns how many it takes; 0: the type cannot
 * hold it. */
static uint32_t value_bytes(uint32_t type, const gq_value *v, uint8_t bytes[8]) {
    uint64_t bits = 0;
    float narrow;
    switch (type) {
    case GGUF_BOOL:
        bytes[0] = v->as_bool;
        return v->kind == GQ_BOOL;
    case GGUF_FLOAT32:
        if (v->kind != GQ_FLOAT || (isfinite(v->as_float) && fabs(v->as_float) > (double)FLT_MAX)) return 0;
        narrow = (float)v->as_float;
        memcpy(bytes, &narrow, sizeof narrow);
        return sizeof narrow;
    case GGUF_FLOAT64:
        memcpy(bytes, &v->as_float, 8);
        return v->kind == GQ_FLOAT ? 8 : 0;
    default:
        if (!whole_number(type, v, &bits)) return 0;
        memcpy(bytes, &bits, sizeof bits);
        return gguf_value_size(type);
    }
}

typedef struct raw {
    uint8_t *bytes;
    uint64_t n;
    size_t capacity;
} raw;

static bool raw_add(raw *r, const void *bytes, uint64_t n, gq_error *e) {
    if (!memory_grow(&r->bytes, &r->capacity, add_sat(r->n, n), 1, e)) return false;
    if (n) memcpy(r->bytes + r->n, bytes, n);
    r->n += n;
    return true;
}

static bool raw_add_value(raw *r, const char *key, uint32_t type, const gq_value *v, gq_error *e) {
    uint8_t bytes[8];
    if (type == GGUF_STRING) {
        if (v->kind != GQ_TEXT)
            return gq_fail_usage(e, "key '%.200s' has the type string, but its value is not a string", key);
        return raw_add(r, &v->length, 8, e) && raw_add(r, v->text, v->length, e);
    }
    uint32_t n = value_bytes(type, v, bytes);
    if (n) return raw_add(r, bytes, n, e);
    return gq_fail_usage(e, "key '%.200s': the value does not fit type %s", key, gguf_value_name(type));
}

bool gq_gguf_builder_set(gq_gguf_builder *b, const char *key, const char *type, bool list,
                         const gq_value *values, size_t n, gq_error *e) {
    raw r = {.n = 0};
    uint32_t of = value_type_named(type);
    if (of > GGUF_FLOAT64 || of == GGUF_ARRAY)
        return gq_fail_usage(
            e, "key '%.200s': unknown value type '%.50s', expected one such as u32, f32 or string", key,
            type);
    if (!list && n != 1) return gq_fail_usage(e, "key '%.200s': expected one value, found %zu", key, n);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) ok = raw_add_value(&r, key, of, &values[i], e);
    ok = ok && (list ? gguf_header_set_array(b->header, key, of, n, r.bytes, r.n, e)
                     : gguf_header_set(b->header, key, of, r.bytes, r.n, e));
    free(r.bytes);
    return ok;
}

void gq_gguf_builder_remove(gq_gguf_builder *b, const char *key) { gguf_header_remove(b->header, key); }

bool gq_gguf_builder_copy(gq_gguf_builder *b, const gq_model *from, gq_error *e) {
    for (uint64_t i = 0; i < from->file.n_kv; i++) {
        const model_kv *kv = &from->file.kv[i];
        if (strncmp(kv->key, "split.", 6) == 0 || strcmp(kv->key, GGUF_SET_KEY) == 0 ||
            strcmp(kv->key, GGUF_DIGESTS_KEY) == 0 || strcmp(kv->key, GGUF_SOURCE_KEY) == 0)
            continue;
        if (!gguf_header_set(b->header, kv->key, kv->type, kv->value, kv->size, e)) return false;
    }
    return true;
}

/* ---- tensors ---- */

bool gq_gguf_builder_add(gq_gguf_builder *b, const char *name, uint32_t n_dims, const uint64_t *ne,
                         uint32_t type, const void *data, size_t bytes, gq_error *e) {
    model_tensor t = {.type = tensor_type_of(type), .n_dims = n_dims, .ne = {1, 1, 1, 1}};
    gq_error why;
    if (!t.type) return gq_fail_usage(e, "tensor '%.200s': unknown tensor type %u", name, type);
    if (n_dims < 1 || n_dims > GGUF_MAX_DIMS)
        return gq_fail_usage(e, "tensor '%.200s': %u dimensions, expected 1 to %d", name, n_dims,
                             GGUF_MAX_DIMS);
    memcpy(t.ne, ne, n_dims * sizeof *ne);
    if (!model_tensor_measure(&t, &why)) return gq_fail_usage(e, "tensor '%.200s': %s", name, why.text);
    if (t.size != bytes)
        return gq_fail_usage(e, "tensor '%.200s': %zu bytes, expected %llu as %s", name, bytes, LLU(t.size),
                             t.type->name);
    if (!memory_grow(&b->data, &b->capacity, b->n + 1, sizeof *b->data, e)) return false;
    if (!gguf_header_add_shaped(b->header, name, n_dims, t.ne, t.type, e)) return false;
    b->data[b->n++] = (file_piece){data, bytes};
    return true;
}

bool gq_gguf_builder_write(gq_gguf_builder *b, const char *path, bool replace, gq_error *e) {
    const uint8_t *header;
    uint64_t size, data;
    if (!gguf_header_finish(b->header, &header, &size, &data, e)) return false;
    file_piece *pieces = calloc(2 * b->n + 1, sizeof *pieces);
    if (!pieces) return gq_fail_memory(e, (2 * b->n + 1) * sizeof *pieces);
    size_t n = 0;
    pieces[n++] = (file_piece){header, size};
    for (size_t i = 0; i < b->n; i++) { /* the tensor, and the zeros behind it */
        uint64_t end = gguf_header_tensor_offset(b->header, i) + b->data[i].n;
        uint64_t next = i + 1 < b->n ? gguf_header_tensor_offset(b->header, i + 1) : size + data;
        pieces[n++] = b->data[i];
        pieces[n++] = (file_piece){NULL, next - end};
    }
    bool ok = files_write(path, replace, pieces, n, e);
    free(pieces);
    return ok;
}
