#include "base/name_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char *record_name(const void *records, size_t size, uint64_t i) {
    const char *name;
    memcpy(&name, (const char *)records + i * size, sizeof name);
    return name;
}

/* Both halves of a product of 64 bits. */
static uint64_t hash_mix(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t name_hash(const void *bytes, size_t n, uint64_t seed) {
    uint64_t h = seed ^ n;
    for (const char *at = bytes; n > 0; n -= n < 8 ? n : 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, n < 8 ? n : 8);
        h = hash_mix(h ^ word, seed | 1);
    }
    return hash_mix(h, 0x9e3779b97f4a7c15);
}

uint64_t name_hash_seed(void) {
    uint64_t seed;
    /* Without random bits a table is as good for all files but those made against it. */
    return getentropy(&seed, sizeof seed) == 0 ? seed : 0x243f6a8885a308d3;
}

static uint64_t index_hash(const char *name, uint64_t seed) { return name_hash(name, strlen(name), seed); }

static void slot_insert(name_index *x, const char *name, uint32_t slot) {
    uint64_t at = index_hash(name, x->seed);
    while (x->slots[at & (x->capacity - 1)]) at++;
    x->slots[at & (x->capacity - 1)] = slot;
    x->n++;
}

/* Twice the room, without records that have gone. */
static bool slots_grow(name_index *x, const void *records, size_t size, gq_error *e) {
    name_index old = *x;
    x->capacity = old.capacity ? 2 * old.capacity : 64, x->n = 0;
    x->slots = calloc(x->capacity, sizeof *x->slots);
    if (!x->slots) {
        *x = old;
        return gq_fail_memory(e, 2 * old.capacity * sizeof *x->slots);
    }
    if (!old.capacity) x->seed = name_hash_seed();
    for (uint64_t k = 0; k < old.capacity; k++) {
        const char *name = old.slots[k] ? record_name(records, size, old.slots[k] - 1) : NULL;
        if (name) slot_insert(x, name, old.slots[k]);
    }
    free(old.slots);
    return true;
}

bool name_is_hub_id(const char *text, size_t n) {
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    enum { MOST = 96 };
    const char *slash = memchr(text, '/', n), *names[] = {text, slash ? slash + 1 : text};
    size_t sizes[] = {slash ? (size_t)(slash - text) : 0, slash ? n - (size_t)(slash - text) - 1 : 0};
    for (int i = 0; i < 2; i++) {
        if (sizes[i] < 1 || sizes[i] > MOST || strchr(".-", names[i][0])) return false;
        for (size_t k = 0; k < sizes[i]; k++)
            if (!memchr(good, names[i][k], sizeof good - 1)) return false;
    }
    return true;
}

int name_compare(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool name_index_add(name_index *x, const void *records, size_t size, uint64_t i, gq_error *e) {
    if (i >= UINT32_MAX) return gq_fail(e, "more than 2^32 names");
    if (4 * x->n >= 3 * x->capacity && !slots_grow(x, records, size, e)) return false;
    const char *name = record_name(records, size, i);
    if (name) slot_insert(x, name, (uint32_t)i + 1);
    return true;
}

bool name_index_all(name_index *x, const void *records, size_t size, uint64_t n, gq_error *e) {
    for (uint64_t i = 0; i < n; i++)
        if (!name_index_add(x, records, size, i, e)) return false;
    return true;
}

bool name_index_find(const name_index *x, const void *records, size_t size, const char *name, uint64_t *i) {
    if (x->capacity == 0) return false;
    for (uint64_t at = index_hash(name, x->seed);; at++) {
        uint32_t slot = x->slots[at & (x->capacity - 1)];
        if (!slot) return false;
        const char *found = record_name(records, size, slot - 1);
        if (!found || strcmp(found, name) != 0) continue;
        *i = slot - 1;
        return true;
    }
}

void name_index_free(name_index *x) {
    free(x->slots);
    *x = (name_index){0};
}
