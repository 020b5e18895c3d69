/* A growing list of sentences. Zero is an empty list; warnings_free releases it. False from a function: no
 * memory. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/threads.h"

typedef struct warning_list {
    char **items;
    size_t n;
} warning_list;

/* Adds a formatted sentence, with control characters made visible as gq_fail does. */
bool warnings_add(warning_list *l, gq_error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool warnings_copy(warning_list *l, gq_error *e, const char *text); /* adds a copy of the text as it is */
/* Adds copies of another list's sentences that are not there yet. */
bool warnings_join(warning_list *l, const warning_list *from, gq_error *e);
/* Each line of a text (NULL: none) as a sentence. */
bool warnings_add_lines(warning_list *l, gq_error *e, const char *text);
/* Adds a warning if threads of a pool could not be started: how many there were. It is added once, however
 * many pools report it. */
bool warnings_add_threads(warning_list *l, threads_count count, gq_error *e);
/* The sentences as public functions hand them out; *n: how many there are. */
static inline const char *const *warnings_texts(const warning_list *l, size_t *n) {
    return *n = l->n, (const char *const *)l->items;
}
void warnings_cut(warning_list *l, size_t n); /* keeps the first n */
void warnings_free(warning_list *l);
