/* Builds the header of a GGUF file to be written: metadata key-value pairs and the table of tensors. A KV pair is
 * borrowed from a model that stays open, since a vocabulary takes megabytes, or set here and then owned. Removing a
 * KV pair only clears its key, so that numbers of KV pairs stay valid for the index; gaps are closed when the header
 * is measured. The index by key is built when a KV pair is first set or removed. gguf_header_finish checks names,
 * gives every tensor the next aligned offset and lays all of it out in one buffer. Offsets in the table count from
 * the data section, those in `tensors` from the start of the file. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/name_index.h"
#include "gguf/gguf.h"

struct gguf_header {
    model_kv *kv; /* key NULL: removed */
    void **owned; /* per KV pair: the memory behind key and value, NULL when they are borrowed */
    uint64_t n_kv;
    size_t kv_capacity, owned_capacity;
    name_index by_key; /* of the first n_indexed KV pairs */
    uint64_t n_indexed;
    model_tensor *tensors; /* offset: from the start of the file, after finish */
    uint64_t n_tensors;
    size_t tensors_capacity;
    uint8_t *bytes;
};

gguf_header *gguf_header_new(gq_error *e) {
    gguf_header *h = calloc(1, sizeof *h);
    if (!h) gq_fail_memory(e, sizeof *h);
    return h;
}

void gguf_header_free(gguf_header *h) {
    if (!h) return;
    for (uint64_t i = 0; i < h->n_kv; i++) free(h->owned[i]);
    for (uint64_t i = 0; i < h->n_tensors; i++) free((char *)h->tensors[i].name);
    name_index_free(&h->by_key);
    free(h->kv);
    free(h->owned);
    free(h->tensors);
    free(h->bytes);
    free(h);
}

static bool append_kv(gguf_header *h, model_kv kv, void *owned_by, gq_error *e) {
    if (!memory_grow(&h->kv, &h->kv_capacity, h->n_kv + 1, sizeof *h->kv, e) ||
        !memory_grow(&h->owned, &h->owned_capacity, h->n_kv + 1, sizeof *h->owned, e))
        return false;
    h->kv[h->n_kv] = kv;
    h->owned[h->n_kv++] = owned_by;
    return true;
}

bool gguf_header_copy(gguf_header *h, const model_kv *kv, gq_error *e) { return append_kv(h, *kv, NULL, e); }

static model_kv *find_kv(const gguf_header *h, const char *key) {
    uint64_t i;
    if (name_index_find(&h->by_key, h->kv, sizeof *h->kv, key, &i)) return &h->kv[i];
    for (i = h->n_indexed; i < h->n_kv; i++)
        if (h->kv[i].key && strcmp(h->kv[i].key, key) == 0) return &h->kv[i];
    return NULL;
}

/* Brings the index up to date. Copying a KV pair leaves it behind; only setting and removing look keys up. */
static bool index_kv(gguf_header *h, gq_error *e) {
    for (; h->n_indexed < h->n_kv; h->n_indexed++)
        if (!name_index_add(&h->by_key, h->kv, sizeof *h->kv, h->n_indexed, e)) return false;
    return true;
}

void gguf_header_remove(gguf_header *h, const char *key) {
    index_kv(h, NULL); /* without memory for the index, find_kv tries the rest one by one */
    model_kv *found = find_kv(h, key);
    if (!found) return;
    size_t i = (size_t)(found - h->kv);
    free(h->owned[i]);
    h->owned[i] = NULL;
    found->key = NULL;
}

/* Closes the gaps that removed KV pairs have left. */
static void drop_removed_kv(gguf_header *h) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < h->n_kv; i++) {
        if (!h->kv[i].key) continue;
        h->kv[kept] = h->kv[i];
        h->owned[kept++] = h->owned[i];
    }
    h->n_kv = kept;
    name_index_free(&h->by_key);
    h->n_indexed = 0;
}

/* Sets a KV pair, whose value is `header` and then `tail`: length and text of a string, type and number of an array and
 * its elements; other values are in `tail` alone. */
static bool set_kv(gguf_header *h, const char *key, uint32_t type, const void *header, size_t header_size,
                   const void *tail, uint64_t tail_size, gq_error *e) {
    size_t length = strlen(key);
    if (length < 1 || length > GGUF_MAX_KEY)
        return gq_fail(e, "key '%.200s' has %zu bytes, expected 1 to %d", key, length, GGUF_MAX_KEY);
    uint32_t fixed = gguf_value_size(type);
    if (fixed && fixed != header_size + tail_size) {
        return gq_fail(e, "key '%.200s': a value of type %s has %u bytes, not %llu", key,
                       gguf_value_name(type), fixed, (unsigned long long)(header_size + tail_size));
    }
    if (!index_kv(h, e)) return false;
    uint8_t *owned = malloc(header_size + tail_size + length + 1);
    if (!owned) return gq_fail_memory(e, header_size + tail_size + length + 1);
    uint8_t *name = owned + header_size + tail_size;
    memcpy(owned, header, header_size);
    if (tail_size) memcpy(owned + header_size, tail, tail_size);
    memcpy(name, key, length + 1);
    gguf_header_remove(h, key);
    if (append_kv(h, (model_kv){(const char *)name, type, owned, header_size + tail_size}, owned, e))
        return true;
    free(owned);
    return false;
}

bool gguf_header_set(gguf_header *h, const char *key, uint32_t type, const void *value, uint64_t size,
                     gq_error *e) {
    return set_kv(h, key, type, "", 0, value, size, e);
}

bool gguf_header_set_u32(gguf_header *h, const char *key, uint32_t value, gq_error *e) {
    return gguf_header_set(h, key, GGUF_U32, &value, sizeof value, e);
}

bool gguf_header_set_string(gguf_header *h, const char *key, const char *text, gq_error *e) {
    uint64_t length = strlen(text);
    return set_kv(h, key, GGUF_STRING, &length, sizeof length, text, length, e);
}

const model_kv *gguf_header_find(const gguf_header *h, const char *key) { return find_kv(h, key); }

/* Returns the number of dimensions without trailing ones of size 1; at least 1. */
static uint32_t used_dimensions(const uint64_t ne[GGUF_MAX_DIMS]) {
    uint32_t n = GGUF_MAX_DIMS;
    while (n > 1 && ne[n - 1] == 1) n--;
    return n;
}

bool gguf_header_add_tensor(gguf_header *h, const char *name, const uint64_t ne[GGUF_MAX_DIMS],
                            const tensor_type *type, gq_error *e) {
    return gguf_header_add_shaped(h, name, used_dimensions(ne), ne, type, e);
}

bool gguf_header_add_shaped(gguf_header *h, const char *name, uint32_t n_dims,
                            const uint64_t ne[GGUF_MAX_DIMS], const tensor_type *type, gq_error *e) {
    model_tensor t = {.type = type, .n_dims = n_dims};
    gq_error why;
    size_t length = strlen(name);
    memcpy(t.ne, ne, sizeof t.ne);
    if (length < 1 || length > GGUF_MAX_NAME)
        return gq_fail(e, "tensor name '%.200s' has %zu bytes, expected 1 to %d", name, length,
                       GGUF_MAX_NAME);
    if (!model_tensor_measure(&t, &why)) return gq_fail_again(e, &why, "tensor '%s': %s", name, why.text);
    if (!memory_grow(&h->tensors, &h->tensors_capacity, h->n_tensors + 1, sizeof *h->tensors, e))
        return false;
    t.name = strdup(name);
    if (!t.name) return gq_fail_memory(e, length + 1);
    h->tensors[h->n_tensors++] = t;
    return true;
}

static uint8_t *header_append(uint8_t *to, const void *from, uint64_t n) {
    if (n) memcpy(to, from, n);
    return to + n;
}

static uint8_t *header_append_u32(uint8_t *to, uint32_t value) {
    return header_append(to, &value, sizeof value);
}
static uint8_t *header_append_u64(uint8_t *to, uint64_t value) {
    return header_append(to, &value, sizeof value);
}

static uint8_t *header_append_name(uint8_t *to, const char *name) {
    uint64_t n = strlen(name);
    return header_append(header_append_u64(to, n), name, n);
}

bool gguf_header_set_array(gguf_header *h, const char *key, uint32_t element_type, uint64_t n,
                           const void *elements, uint64_t size, gq_error *e) {
    uint8_t header[GGUF_ARRAY_HEADER];
    header_append_u64(header_append_u32(header, element_type), n);
    return set_kv(h, key, GGUF_ARRAY, header, sizeof header, elements, size, e);
}

bool gguf_header_set_texts(gguf_header *h, const char *key, const char *const *texts, uint64_t n,
                           gq_error *e) {
    uint64_t size = 0;
    for (uint64_t i = 0; i < n; i++) size += GGUF_STRING_HEADER + strlen(texts[i]);
    uint8_t *elements = malloc(size + 1), *to = elements;
    if (!elements) return gq_fail_memory(e, size);
    for (uint64_t i = 0; i < n; i++) to = header_append_name(to, texts[i]);
    bool ok = gguf_header_set_array(h, key, GGUF_STRING, n, elements, size, e);
    free(elements);
    return ok;
}

uint64_t gguf_entry_size(const char *name, uint32_t n_dims) {
    return 8 + strlen(name) + 4 + 8 * (uint64_t)n_dims + 4 + 8;
}

bool gguf_header_measure(gguf_header *h, uint64_t *bytes, uint32_t *alignment, gq_error *e) {
    uint64_t size = GGUF_HEADER_BYTES;
    drop_removed_kv(h);
    for (uint64_t i = 0; i < h->n_kv; i++) size += 8 + strlen(h->kv[i].key) + 4 + h->kv[i].size;
    for (uint64_t i = 0; i < h->n_tensors; i++)
        size += gguf_entry_size(h->tensors[i].name, h->tensors[i].n_dims);
    *bytes = size;
    return gguf_alignment(h->kv, h->n_kv, alignment, "output", e);
}

/* Tensors follow each other at aligned offsets; the last one is padded, too. */
static bool header_place_tensors(gguf_header *h, uint64_t data_offset, uint64_t alignment,
                                 uint64_t *data_size, gq_error *e) {
    uint64_t end = data_offset;
    for (uint64_t i = 0; i < h->n_tensors; i++) {
        model_tensor *t = &h->tensors[i];
        uint64_t padded = round_up(t->size, alignment);
        if (padded > INT64_MAX - end) {
            return gq_fail(e, "tensor '%s': %llu bytes at byte %llu make a file of 2^63 bytes or more",
                           t->name, (unsigned long long)t->size, (unsigned long long)end);
        }
        t->offset = end;
        end += padded;
    }
    *data_size = end - data_offset;
    return true;
}

static uint8_t *header_append_tables(const gguf_header *h, uint8_t *to, uint64_t data_offset) {
    to = header_append_u32(header_append_u32(to, GGUF_MAGIC), 3);
    to = header_append_u64(header_append_u64(to, h->n_tensors), h->n_kv);
    for (uint64_t i = 0; i < h->n_kv; i++) {
        to = header_append_u32(header_append_name(to, h->kv[i].key), h->kv[i].type);
        to = header_append(to, h->kv[i].value, h->kv[i].size);
    }
    for (uint64_t i = 0; i < h->n_tensors; i++) {
        const model_tensor *t = &h->tensors[i];
        to = header_append_u32(header_append_name(to, t->name), t->n_dims);
        to = header_append(to, t->ne, t->n_dims * sizeof *t->ne);
        to = header_append_u64(header_append_u32(to, t->type->id), t->offset - data_offset);
    }
    return to;
}

bool gguf_header_finish(gguf_header *h, const uint8_t **bytes, uint64_t *header_size, uint64_t *data_size,
                        gq_error *e) {
    uint32_t alignment;
    uint64_t size;
    if (!gguf_header_measure(h, &size, &alignment, e) ||
        !gguf_check_names(h->kv, h->n_kv, h->tensors, h->n_tensors, "output", e))
        return false;
    *header_size = round_up(size, alignment);
    if (!header_place_tensors(h, *header_size, alignment, data_size, e)) return false;
    free(h->bytes);
    h->bytes = malloc(*header_size);
    if (!h->bytes) return gq_fail_memory(e, *header_size);
    uint8_t *end = header_append_tables(h, h->bytes, *header_size);
    memset(end, 0, *header_size - (uint64_t)(end - h->bytes));
    *bytes = h->bytes;
    return true;
}

uint64_t gguf_header_value_offset(const gguf_header *h, const char *key) {
    uint64_t at = GGUF_HEADER_BYTES;
    for (uint64_t i = 0; i < h->n_kv; i++) {
        at += 8 + strlen(h->kv[i].key) + 4;
        if (strcmp(h->kv[i].key, key) == 0) return at;
        at += h->kv[i].size;
    }
    return 0;
}

uint64_t gguf_header_tensor_offset(const gguf_header *h, uint64_t i) { return h->tensors[i].offset; }

/* ---- what reader and writer both insist on ---- */

bool gguf_alignment(const model_kv *kv, uint64_t n, uint32_t *alignment, const char *file, gq_error *e) {
    static const char key[] = "general.alignment";
    const model_kv *found = model_kv_find(kv, n, key);
    *alignment = GGUF_DEFAULT_ALIGNMENT;
    if (!found) return true;
    if (found->type != GGUF_U32)
        return gq_fail(e, "%s: %s has type %s, expected u32", file, key, gguf_value_name(found->type));
    memcpy(alignment, found->value, sizeof *alignment);
    if (*alignment && (*alignment & (*alignment - 1)) == 0 && *alignment <= GGUF_MAX_ALIGNMENT) return true;
    return gq_fail(e, "%s: %s is %u, expected a power of two up to %d", file, key, *alignment,
                   GGUF_MAX_ALIGNMENT);
}

bool model_tensor_measure(model_tensor *t, gq_error *e) {
    uint64_t elements = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (t->ne[i] == 0) return gq_fail(e, "dimension %u is 0, expected at least 1", i);
        if (t->ne[i] > INT64_MAX / elements) {
            return gq_fail(e, "dimension %u is %llu, which makes 2^63 elements or more", i,
                           (unsigned long long)t->ne[i]);
        }
        elements *= t->ne[i];
    }
    if (t->ne[0] % t->type->block_elements) {
        return gq_fail(e, "row length %llu is not a multiple of %u, the block length of %s",
                       (unsigned long long)t->ne[0], t->type->block_elements, t->type->name);
    }
    if (!gguf_fits_row(t->type, t->ne[0]))
        return gq_fail(e, "row length %llu is more than %d, the most for %s", (unsigned long long)t->ne[0],
                       GGUF_HEADERED_COLUMNS, t->type->name);
    /* below 2^63 after rounding up to any alignment, too */
    if (!gguf_rows_fit(t->type, t->ne[0], elements / t->ne[0], INT64_MAX - GGUF_MAX_ALIGNMENT)) {
        return gq_fail(e, "%llu elements of type %s take 2^63 bytes or more", (unsigned long long)elements,
                       t->type->name);
    }
    t->size = model_bytes(t, elements);
    return true;
}

/* Sorts the names. */
static bool check_unique(const char **names, uint64_t n, const char *kind, const char *file, gq_error *e) {
    qsort(names, n, sizeof *names, name_compare);
    for (uint64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1], names[i]) == 0)
            return gq_fail(e, "%s: duplicate %s '%.200s'", file, kind, names[i]);
    }
    return true;
}

bool gguf_check_names(const model_kv *kv, uint64_t n_kv, const model_tensor *tensors, uint64_t n_tensors,
                      const char *file, gq_error *e) {
    uint64_t n = n_kv > n_tensors ? n_kv : n_tensors;
    const char **names = malloc((n + 1) * sizeof *names);
    if (!names) return gq_fail_memory(e, n * sizeof *names);
    for (uint64_t i = 0; i < n_kv; i++) names[i] = kv[i].key;
    bool ok = check_unique(names, n_kv, "key", file, e);
    for (uint64_t i = 0; i < n_tensors; i++) names[i] = tensors[i].name;
    ok = ok && check_unique(names, n_tensors, "tensor", file, e);
    free(names);
    return ok;
}
