#include <string.h>

#include "gguf/model.h"

static const struct {
    const char *name;
    uint32_t size; /* bytes; 0: varies */
} value_types[GGUF_VALUE_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_INT8] = {"i8", 1},   [GGUF_U16] = {"u16", 2},
    [GGUF_INT16] = {"i16", 2},   [GGUF_U32] = {"u32", 4},   [GGUF_INT32] = {"i32", 4},
    [GGUF_FLOAT32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_INT64] = {"i64", 8},
    [GGUF_FLOAT64] = {"f64", 8},
};

const char *gguf_value_name(uint32_t type) {
    return type < GGUF_VALUE_TYPES ? value_types[type].name : "unknown";
}
uint32_t gguf_value_size(uint32_t type) { return type < GGUF_VALUE_TYPES ? value_types[type].size : 0; }

bool gguf_value_holds(uint32_t type, bool negative, uint64_t magnitude) {
    bool is_signed = type == GGUF_INT8 || type == GGUF_INT16 || type == GGUF_INT32 || type == GGUF_INT64;
    bool is_unsigned = type == GGUF_U8 || type == GGUF_U16 || type == GGUF_U32 || type == GGUF_U64;
    if (!is_signed && !is_unsigned) return false;
    uint64_t most = UINT64_MAX >> (64 - 8 * gguf_value_size(type) + is_signed);
    return magnitude <= (!negative ? most : is_signed ? most + 1 : 0);
}

const model_kv *model_kv_find(const model_kv *kv, uint64_t n, const char *key) {
    for (uint64_t i = 0; i < n; i++)
        if (strcmp(kv[i].key, key) == 0) return &kv[i];
    return NULL;
}

bool model_kv_int(const model_kv *kv, int64_t *value) {
    if (!kv || kv->size > 8) return false;
    uint64_t bits = 0;
    memcpy(&bits, kv->value, kv->size);
    switch (kv->type) {
    case GGUF_INT8:
        *value = (int8_t)bits;
        return true;
    case GGUF_INT16:
        *value = (int16_t)bits;
        return true;
    case GGUF_INT32:
        *value = (int32_t)bits;
        return true;
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_INT64:
        *value = (int64_t)bits;
        return true;
    case GGUF_U64:
        *value = (int64_t)bits;
        return bits <= INT64_MAX;
    default:
        return false;
    }
}

bool model_kv_float(const model_kv *kv, double *value) {
    float single;
    if (kv && kv->type == GGUF_FLOAT64) {
        memcpy(value, kv->value, sizeof *value);
        return true;
    }
    if (!kv || kv->type != GGUF_FLOAT32) return false;
    memcpy(&single, kv->value, sizeof single);
    *value = single;
    return true;
}

bool model_kv_string(const model_kv *kv, const char **text, uint64_t *length) {
    if (!kv || kv->type != GGUF_STRING) return false;
    memcpy(length, kv->value, sizeof *length);
    *text = (const char *)kv->value + GGUF_STRING_HEAD;
    return true;
}

bool model_kv_is_text(const model_kv *kv, const char *text) {
    const char *found;
    uint64_t n;
    return model_kv_string(kv, &found, &n) && n == strlen(text) && !memcmp(found, text, n);
}

bool model_kv_array(const model_kv *kv, uint32_t *element_type, uint64_t *count, const uint8_t **elements) {
    if (!kv || kv->type != GGUF_ARRAY) return false;
    memcpy(element_type, kv->value, sizeof *element_type);
    memcpy(count, kv->value + sizeof *element_type, sizeof *count);
    *elements = kv->value + GGUF_ARRAY_HEAD;
    return true;
}
