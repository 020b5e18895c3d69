/* Values under an architecture's keys, each checked for its type and its bounds. A name that begins with ':'
 * is a key without the architecture's name before it.
 *
 * The first value that is wrong sets the error and clears `ok`; values read after it are defaults. So a
 * caller looks at `ok` once, when it has read all. */
#pragma once

#include "gguf/facts.h"

typedef struct key_reader {
    model_facts facts;
    const char *file;
    gq_error *e;
    bool ok;
    bool lacks; /* the fault is a missing key */
} key_reader;

bool key_there(const key_reader *r, const char *name);
/* Integers of any width from `least` to `most`. absent: the value where the key is missing; a needed key must
 * be there. */
uint64_t key_number(key_reader *r, const char *name, uint64_t absent, uint64_t least, uint64_t most);
uint64_t key_number_needed(key_reader *r, const char *name, uint64_t least, uint64_t most);
/* The same of many layers: a key that has been looked up once, of whose list each layer has an element, or
 * whose one value counts for all. */
typedef struct key_list {
    const char *name;
    const model_kv *kv; /* NULL: absent */
} key_list;
key_list key_list_of(const key_reader *r, const char *name);
key_list key_list_needed(key_reader *r, const char *name);
/* Whether it is a list, of n values. */
bool key_list_counts(const key_list *l, uint64_t *n);
uint64_t key_number_at(key_reader *r, const key_list *l, uint64_t i, uint64_t absent, uint64_t least,
                       uint64_t most);
/* Finite numbers from `least` to `most`. */
double key_float_at(key_reader *r, const key_list *l, uint64_t i, double absent, double least, double most);
double key_float(key_reader *r, const char *name, double absent, double least, double most);
double key_float_needed(key_reader *r, const char *name, double least, double most);
/* A factor; 0 in the file stands for 1. absent: the value where the key is missing. */
double key_scale(key_reader *r, const char *name, double absent);
bool key_bool(key_reader *r, const char *name, bool absent);
/* Returns the number of the text, of n, that the value equals; 0 where the key is absent. */
size_t key_choice(key_reader *r, const char *name, const char *const *texts, size_t n);

/* A fault of a key's value that its reader found: "found" is what the text says of it. */
void key_fail(key_reader *r, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- bounds.c ----
 * Bounds of metadata that hold for every architecture, whether its row reads the key or not: no model has a negative
 * epsilon, a rotation of base 0 or a negative factor. Rows have narrower bounds of their own. */

/* Checks the types of all values, and those that have bounds, in lists, too. file: its path, for messages. */
bool bounds_check(const model_facts *facts, const char *file, warning_list *doubts, gq_error *e);
