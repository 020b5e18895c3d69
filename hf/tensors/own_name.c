/* The name of an array from that of a tensor: the array that the tensor is made of; else the bias or weight beside what
 * its other half is made of; else what the same tensor of another layer is made of, with this layer's number; else
 * what a rule would take. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/facts.h"
#include "hf/arrays/names.h"
#include "hf/tensors/build.h"
#include "hf/tensors/build_tensor.h"

/* Writes a name with another layer's number in place of its own. False: it has none, or becomes too long. */
static bool name_renumber(const char *name, uint64_t from, uint64_t to, char *text, size_t size) {
    char number[32];
    int n = snprintf(number, sizeof number, ".%llu.", (unsigned long long)from);
    const char *at = strstr(name, number);
    return at && snprintf(text, size, "%.*s.%llu.%s", (int)(at - name), name, (unsigned long long)to,
                          at + n) < (int)size;
}

static const char *tensor_names(const hf_tensor *t) {
    return t->origin.names && *t->origin.names ? t->origin.names : t->stored_name;
}

/* Writes a name with another end. False: it ends with something else, or becomes too long. */
static bool name_end_with(const char *name, const char *end, const char *other, char *to, size_t size) {
    size_t n = strlen(name);
    return name_ends(name, end) &&
           snprintf(to, size, "%.*s%s", (int)(n - strlen(end)), name, other) < (int)size;
}

static bool name_of_half(const hf_build *b, const char *name, char *to, size_t size) {
    static const char *const ends[] = {".weight", ".bias"};
    char other[GGUF_MAX_NAME + 8];
    for (int i = 0; i < 2; i++) {
        if (!name_end_with(name, ends[i], ends[1 - i], other, sizeof other)) continue;
        const hf_tensor *t = hf_build_find(b, other);
        const char *names = t ? tensor_names(t) : NULL;
        if (names && name_end_with(names, ends[1 - i], ends[i], to, size)) return true;
    }
    return false;
}

static bool name_of_sibling(const hf_build *b, const char *name, char *to, size_t size) {
    model_block block;
    char other[2 * GGUF_MAX_NAME];
    if (!model_block_in(name, &block)) return false;
    for (uint64_t i = 0; i < hf_config_blocks(b->config); i++) {
        snprintf(other, sizeof other, "%.*s%llu.%s", (int)(block.digits - name), name, (unsigned long long)i,
                 block.rest);
        const hf_tensor *t = hf_build_find(b, other);
        const char *names = t ? tensor_names(t) : NULL;
        if (names && name_renumber(names, i, block.number, to, size)) return true;
    }
    return false;
}

/* Compares a name with one part of a rule's, up to '|'. *length: bytes of the name that fit. */
static bool part_match(const char *part, const char *name, size_t *length, uint64_t *layer) {
    enum { DIGITS = 9 };
    size_t at = 0;
    for (; *part && *part != '|'; part++) {
        size_t n = *part == '#' ? strspn(name + at, "0123456789") : name[at] == *part;
        if (n == 0 || n > DIGITS) return false;
        if (*part == '#') *layer = strtoull(name + at, NULL, 10);
        at += n;
    }
    *length = at;
    return true;
}

static bool name_of_rules(const arch_rule *rules, const char *name, char *to, size_t size) {
    for (; rules && rules->from; rules++)
        for (const char *part = rules->to; part; part = strchr(part, '|')) {
            uint64_t layer = 0;
            size_t length;
            if (*part == '|') part++;
            if (!part_match(part, name, &length, &layer)) continue;
            const char *rest = name + length;
            if (!*rest || !strcmp(rest, ".weight") || !strcmp(rest, ".bias"))
                return hf_pattern_write(rules->from, layer, UINT64_MAX, rest, to, size);
        }
    return false;
}

bool hf_build_own_name(const hf_build *b, const char *name, char *to, size_t size) {
    const hf_tensor *t = hf_build_find(b, name);
    const char *names = t ? tensor_names(t) : NULL;
    if (names) return snprintf(to, size, "%s", names) < (int)size;
    return name_of_half(b, name, to, size) || name_of_sibling(b, name, to, size) ||
           (b->arch &&
            (name_of_rules(b->config->class_row->rules, name, to, size) ||
             name_of_rules(b->arch->rules, name, to, size) || name_of_rules(b->arch->more, name, to, size) ||
             name_of_rules(hf_common_rules, name, to, size)));
}
