/* Finds the record of an array that has a name: the one way to look up many keys or tensors.
 *
 * A record is a struct that begins with a pointer to its name; NULL there means that the record has gone. The
 * table holds record numbers, five to eleven bytes a record. Hashes are keyed with random bits, so that no
 * file can be made whose names all meet in one place. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct name_index { /* all zero: empty */
    uint32_t *slots;        /* record + 1; 0: free */
    uint64_t capacity, n;   /* slots, a power of two; of these, in use */
    uint64_t seed;
} name_index;

/* A hash of n bytes, and bits for its key that no file's author can know. What is found does not depend on
 * them. */
uint64_t name_hash(const void *bytes, size_t n, uint64_t seed);
uint64_t name_hash_seed(void);

/* Compares two of an array of names, for qsort. */
int name_compare(const void *a, const void *b);

/* Whether n characters are the name of a model as a hub has it: OWNER/NAME. */
bool name_is_hub_id(const char *text, size_t n);

/* Adds record `i` of an array of structs of `size` bytes; the array may have moved since the last time. */
bool name_index_add(name_index *x, const void *records, size_t size, uint64_t i, gq_error *e);
/* Adds the first n records. */
bool name_index_all(name_index *x, const void *records, size_t size, uint64_t n, gq_error *e);
/* Number of the record of this name; of several, any. False: none has it. */
bool name_index_find(const name_index *x, const void *records, size_t size, const char *name, uint64_t *i);
void name_index_free(name_index *x); /* becomes empty */
