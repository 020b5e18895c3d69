#include "forward/graph/keys.h"
#include "gguf/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const model_kv *key_find(const key_reader *r, const char *name) {
    return *name == ':' ? model_facts_find(&r->facts, name + 1) : model_fact(&r->facts, name);
}

bool key_there(const key_reader *r, const char *name) { return key_find(r, name) != NULL; }

void key_fail(key_reader *r, const char *name, const char *format, ...) {
    char text[512];
    va_list arguments;
    if (!r->ok) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    r->ok = *name == ':' ? gq_fail(r->e, "%s: %s %s", r->file, name + 1, text)
                         : gq_fail(r->e, "%s: %s.%s %s", r->file, r->facts.arch, name, text);
}

static void fail_missing(key_reader *r, const char *name) {
    bool is_whole = *name == ':';
    if (r->ok)
        r->lacks = true,
        r->ok = gq_fail(r->e, "%s: there is no key %s%s%s, without which the model cannot be run", r->file,
                        is_whole ? "" : r->facts.arch, is_whole ? "" : ".", name + is_whole);
}

static void fail_type(key_reader *r, const char *name, const model_kv *kv, const char *expected) {
    key_fail(r, name, "has type %s, expected %s", gguf_value_name(kv->type), expected);
}

key_list key_list_of(const key_reader *r, const char *name) { return (key_list){name, key_find(r, name)}; }

key_list key_list_needed(key_reader *r, const char *name) {
    if (!key_there(r, name)) fail_missing(r, name);
    return key_list_of(r, name);
}

bool key_list_counts(const key_list *l, uint64_t *n) {
    uint32_t type;
    const uint8_t *elements;
    return model_kv_array(l->kv, &type, n, &elements);
}

static bool list_has(key_reader *r, const key_list *l, uint64_t i) {
    uint64_t count;
    if (!key_list_counts(l, &count) || i < count) return true;
    key_fail(r, l->name, "is an array of %llu, expected one value per layer, and layer %llu has none",
             (unsigned long long)count, (unsigned long long)i);
    return false;
}

uint64_t key_number_at(key_reader *r, const key_list *l, uint64_t i, uint64_t absent, uint64_t least,
                       uint64_t most) {
    const model_kv *kv = l->kv;
    const char *name = l->name;
    int64_t value;
    if (!kv || !list_has(r, l, i)) return absent;
    if (!model_fact_at(kv, i, &value)) {
        fail_type(r, name, kv, "an integer");
    } else if (value < 0 || (uint64_t)value < least || (uint64_t)value > most) {
        key_fail(r, name, "is %lld, expected %llu to %llu", (long long)value, (unsigned long long)least,
                 (unsigned long long)most);
    } else {
        return (uint64_t)value;
    }
    return absent;
}

uint64_t key_number(key_reader *r, const char *name, uint64_t absent, uint64_t least, uint64_t most) {
    key_list l = key_list_of(r, name);
    return key_number_at(r, &l, 0, absent, least, most);
}

uint64_t key_number_needed(key_reader *r, const char *name, uint64_t least, uint64_t most) {
    if (!key_there(r, name)) fail_missing(r, name);
    return key_number(r, name, least, least, most);
}

double key_float_at(key_reader *r, const key_list *l, uint64_t i, double absent, double least, double most) {
    uint64_t count;
    double value;
    model_kv element;
    if (!l->kv || !list_has(r, l, i)) return absent;
    bool list = model_kv_array(l->kv, &element.type, &count, &element.value);
    if (list) element.size = gguf_value_size(element.type), element.value += i * element.size;
    if (!model_kv_float(list ? &element : l->kv, &value)) {
        fail_type(r, l->name, l->kv, "a floating-point number");
    } else if (!isfinite(value) || value < least || value > most) {
        key_fail(r, l->name, "is %g, expected %g to %g", value, least, most);
    } else {
        return value;
    }
    return absent;
}

double key_float(key_reader *r, const char *name, double absent, double least, double most) {
    key_list l = key_list_of(r, name);
    return key_float_at(r, &l, 0, absent, least, most);
}

double key_float_needed(key_reader *r, const char *name, double least, double most) {
    if (!key_there(r, name)) fail_missing(r, name);
    return key_float(r, name, least, least, most);
}

double key_scale(key_reader *r, const char *name, double absent) {
    double scale = key_float(r, name, absent, -1e6, 1e6);
    return scale == 0 ? 1 : scale;
}

bool key_bool(key_reader *r, const char *name, bool absent) {
    const model_kv *kv = key_find(r, name);
    if (!kv) return absent;
    if (kv->type == GGUF_BOOL) return *kv->value != 0;
    fail_type(r, name, kv, "bool");
    return absent;
}

size_t key_choice(key_reader *r, const char *name, const char *const *texts, size_t n) {
    const model_kv *kv = key_find(r, name);
    const char *text;
    uint64_t length;
    char list[256] = "";
    if (!kv) return 0;
    if (!model_kv_string(kv, &text, &length)) {
        fail_type(r, name, kv, "string");
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (length == strlen(texts[i]) && !memcmp(text, texts[i], length)) return i;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", texts[i]);
    }
    key_fail(r, name, "is '%.*s', expected one of: %s", (int)(length < 64 ? length : 64), text, list);
    return 0;
}
