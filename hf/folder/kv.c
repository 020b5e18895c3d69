#include "hf/folder/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

const model_kv *hf_metadata_find(const hf_metadata *p, const char *key) {
    size_t prefix = *key == '.' ? strlen(p->prefix) : 0;
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->kv[i].key, prefix ? p->prefix : "", prefix) == 0 &&
            strcmp(p->kv[i].key + prefix, key) == 0)
            return &p->kv[i];
    return NULL;
}

uint32_t hf_metadata_number(const hf_metadata *p, const char *key) {
    const model_kv *kv = key ? hf_metadata_find(p, key) : NULL;
    uint32_t n = 0;
    if (kv && kv->type == GGUF_U32) memcpy(&n, kv->value, sizeof n);
    return n;
}

/* Sets a key and takes over its value, which is malloc'ed. */
static bool metadata_set(hf_metadata *p, const char *key, uint32_t type, uint8_t *value, uint64_t size,
                         gq_error *e) {
    model_kv *kv = (model_kv *)hf_metadata_find(p, key);
    if (kv) {
        free((void *)kv->value);
        kv->type = type, kv->value = value, kv->size = size;
        return true;
    }
    char *whole = NULL;
    bool ok =
        memory_grow(&p->kv, &p->capacity, p->n + 1, sizeof *p->kv, e) &&
        (asprintf(&whole, "%s%s", *key == '.' ? p->prefix : "", key) >= 0 || gq_fail_memory(e, strlen(key)));
    if (ok)
        p->kv[p->n++] = (model_kv){.key = whole, .type = type, .value = value, .size = size};
    else
        free(value);
    return ok;
}

static bool metadata_copy(hf_metadata *p, const char *key, uint32_t type, const void *value, size_t n,
                          gq_error *e) {
    uint8_t *copy = malloc(n);
    return copy ? metadata_set(p, key, type, memcpy(copy, value, n), n, e) : gq_fail_memory(e, n);
}

bool hf_metadata_u32(hf_metadata *p, const char *key, uint32_t value, gq_error *e) {
    return metadata_copy(p, key, GGUF_U32, &value, sizeof value, e);
}

bool hf_metadata_i32(hf_metadata *p, const char *key, int32_t value, gq_error *e) {
    return metadata_copy(p, key, GGUF_INT32, &value, sizeof value, e);
}

bool hf_metadata_f32(hf_metadata *p, const char *key, float value, gq_error *e) {
    return metadata_copy(p, key, GGUF_FLOAT32, &value, sizeof value, e);
}

bool hf_metadata_bool(hf_metadata *p, const char *key, bool value, gq_error *e) {
    uint8_t byte = value;
    return metadata_copy(p, key, GGUF_BOOL, &byte, 1, e);
}

bool hf_metadata_string(hf_metadata *p, const char *key, const char *text, size_t n, gq_error *e) {
    uint64_t length = n;
    uint8_t *value = malloc(GGUF_STRING_HEADER + n);
    if (!value) return gq_fail_memory(e, n);
    memcpy(value, &length, GGUF_STRING_HEADER);
    memcpy(value + GGUF_STRING_HEADER, text, n);
    return metadata_set(p, key, GGUF_STRING, value, GGUF_STRING_HEADER + n, e);
}

bool hf_metadata_text(hf_metadata *p, const char *key, const char *text, gq_error *e) {
    return hf_metadata_string(p, key, text, strlen(text), e);
}

/* Makes room for n more bytes of the open array, behind its header, and returns where they go. */
static uint8_t *metadata_more(hf_metadata *p, size_t n, gq_error *e) {
    size_t at = p->open_bytes ? p->open_bytes : GGUF_ARRAY_HEADER;
    if (!memory_grow(&p->open, &p->open_capacity, at + n, 1, e)) return NULL;
    p->open_bytes = at + n;
    p->open_count++;
    return p->open + at;
}

bool hf_metadata_add(hf_metadata *p, const void *element, size_t size, gq_error *e) {
    uint8_t *to = metadata_more(p, size, e);
    return to && memcpy(to, element, size);
}

bool hf_metadata_add_i32(hf_metadata *p, int32_t value, gq_error *e) {
    return hf_metadata_add(p, &value, sizeof value, e);
}

bool hf_metadata_add_f32(hf_metadata *p, float value, gq_error *e) {
    return hf_metadata_add(p, &value, sizeof value, e);
}

bool hf_metadata_add_bool(hf_metadata *p, bool value, gq_error *e) {
    return hf_metadata_add(p, &(uint8_t){value}, 1, e);
}

bool hf_metadata_add_string(hf_metadata *p, const char *text, size_t n, gq_error *e) {
    uint64_t length = n;
    uint8_t *to = metadata_more(p, GGUF_STRING_HEADER + n, e);
    if (!to) return false;
    memcpy(to, &length, GGUF_STRING_HEADER);
    memcpy(to + GGUF_STRING_HEADER, text, n);
    return true;
}

bool hf_metadata_array(hf_metadata *p, const char *key, uint32_t element_type, gq_error *e) {
    if (p->open_count == 0) return true;
    uint8_t *value = p->open;
    size_t n = p->open_bytes;
    memcpy(value, &element_type, 4);
    memcpy(value + 4, &p->open_count, 8);
    p->open = NULL, p->open_bytes = p->open_capacity = p->open_count = 0;
    return metadata_set(p, key, GGUF_ARRAY, value, n, e);
}

void hf_metadata_remove(hf_metadata *p, const char *key) {
    model_kv *kv = (model_kv *)hf_metadata_find(p, key);
    if (!kv) return;
    free((void *)kv->key), free((void *)kv->value);
    memmove(kv, kv + 1, (size_t)(p->kv + p->n - (kv + 1)) * sizeof *kv);
    p->n--;
}

void hf_metadata_free(hf_metadata *p) {
    for (size_t i = 0; i < p->n; i++) free((void *)p->kv[i].key), free((void *)p->kv[i].value);
    free(p->kv), free(p->open);
    *p = (hf_metadata){.prefix = NULL};
}
