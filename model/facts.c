#include "model/facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PREFIX[] = "blk.";
enum { PREFIX_LENGTH = sizeof PREFIX - 1, DIGITS = 9 };

gguf_facts gguf_facts_of(const gguf_kv *kv, uint64_t n_kv, const gguf_kv *set, uint64_t n_set) {
    gguf_facts f = {.kv = kv, .n_kv = n_kv, .set = set, .n_set = n_set};
    const char *text;
    uint64_t n;
    if (gguf_kv_string(gguf_facts_find(&f, "general.architecture"), &text, &n) && n < sizeof f.arch &&
        !memchr(text, 0, n))
        memcpy(f.arch, text, n);
    return f;
}

const gguf_kv *gguf_facts_find(const gguf_facts *f, const char *key) {
    for (uint64_t i = f->n_set; i > 0; i--)
        if (!strcmp(f->set[i - 1].key, key)) return &f->set[i - 1];
    return gguf_find(f->kv, f->n_kv, key);
}

const gguf_kv *gguf_fact(const gguf_facts *f, const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%s.%s", f->arch, name);
    return gguf_facts_find(f, key);
}

bool gguf_fact_at(const gguf_kv *kv, uint64_t i, int64_t *value) {
    gguf_kv element;
    uint64_t count;
    if (!gguf_kv_array(kv, &element.type, &count, &element.value)) return gguf_kv_int(kv, value);
    if (i >= count) return false;
    element.size = gguf_value_size(element.type); /* 0 for strings and lists, which are no integers */
    element.value += i * element.size;
    if (element.type != GGUF_BOOL) return gguf_kv_int(&element, value);
    *value = *element.value;
    return true;
}

bool gguf_fact_int(const gguf_facts *f, const char *name, int64_t *value) {
    return gguf_fact_at(gguf_fact(f, name), 0, value);
}

bool gguf_block_leads(const char *name, gguf_block *b) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0) return false;
    const char *digits = name + PREFIX_LENGTH;
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > DIGITS || (n > 1 && *digits == '0') || digits[n] != '.') return false;
    *b = (gguf_block){strtoull(digits, NULL, 10), digits, digits + n + 1};
    return true;
}

bool gguf_block_in(const char *name, gguf_block *b) {
    for (const char *at = name; (at = strstr(at, PREFIX)); at++)
        if (gguf_block_leads(at, b)) return true;
    return false;
}

int64_t gguf_block_number(const char *name) {
    if (strncmp(name, PREFIX, PREFIX_LENGTH) != 0 || name[PREFIX_LENGTH] < '0' || name[PREFIX_LENGTH] > '9')
        return -1;
    int64_t number = 0;
    for (const char *c = name + PREFIX_LENGTH; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *c - '0', &number))
            return INT64_MAX;
    return number;
}
