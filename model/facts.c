#include "model/facts.h"
#include "model/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PREFIX[] = "blk.";
enum { PREFIX_LENGTH = sizeof PREFIX - 1, DIGITS = 9 };

model_facts model_facts_of(const model_kv *kv, uint64_t n_kv, const model_kv *set, uint64_t n_set) {
    model_facts f = {.kv = kv, .n_kv = n_kv, .set = set, .n_set = n_set};
    const char *text;
    uint64_t n;
    if (model_kv_string(model_facts_find(&f, "general.architecture"), &text, &n) && n < sizeof f.arch &&
        !memchr(text, 0, n))
        memcpy(f.arch, text, n);
    return f;
}

const model_kv *model_facts_find(const model_facts *f, const char *key) {
    for (uint64_t i = f->n_set; i > 0; i--)
        if (!strcmp(f->set[i - 1].key, key)) return &f->set[i - 1];
    return model_kv_find(f->kv, f->n_kv, key);
}

bool model_fact_is(const model_facts *f, const char *key, const char *text) {
    return model_kv_is_text(model_facts_find(f, key), text);
}

const model_kv *model_fact(const model_facts *f, const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%s.%s", f->arch, name);
    return model_facts_find(f, key);
}

bool model_fact_at(const model_kv *kv, uint64_t i, int64_t *value) {
    model_kv element;
    uint64_t count;
    if (!model_kv_array(kv, &element.type, &count, &element.value)) return model_kv_int(kv, value);
    if (i >= count) return false;
    element.size = gguf_value_size(element.type); /* 0 for strings and lists, which are no integers */
    element.value += i * element.size;
    if (element.type != GGUF_BOOL) return model_kv_int(&element, value);
    *value = *element.value;
    return true;
}

bool model_fact_int(const model_facts *f, const char *name, int64_t *value) {
    return model_fact_at(model_fact(f, name), 0, value);
}

bool model_block_leads(const char *name, model_block *b) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0) return false;
    const char *digits = name + PREFIX_LENGTH;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > DIGITS || (n > 1 && *digits == '0') || digits[n] != '.') return false;
    *b = (model_block){strtoull(digits, NULL, 10), digits, digits + n + 1};
    return true;
}

bool model_block_in(const char *name, model_block *b) {
    for (const char *at = name; (at = strstr(at, PREFIX)); at++)
        if (model_block_leads(at, b)) return true;
    return false;
}

int64_t model_block_number(const char *name) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0 || name[PREFIX_LENGTH] < '0' || name[PREFIX_LENGTH] > '9')
        return -1;
    int64_t number = 0;
    for (const char *c = name + PREFIX_LENGTH; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *c - '0', &number))
            return INT64_MAX;
    return number;
}
