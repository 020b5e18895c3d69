/* A growing list of sentences. */
#ifndef GQ_WORDS_H
#define GQ_WORDS_H

#include <stddef.h>

#include "base/error.h"
#include "base/threads.h"

typedef struct word_list {
    char **items;
    size_t n;
} word_list;

/* Control characters are made visible, as gq_fail does. */
bool words_add(word_list *l, gq_error *e, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool words_copy(word_list *l, gq_error *e, const char *text); /* as it is */
/* Each line of a text (NULL: none) as a sentence. */
bool words_add_lines(word_list *l, gq_error *e, const char *text);
/* Adds a warning if threads of a pool could not be started: how many there were. It is added once, however
 * many pools report it. */
bool words_add_threads(word_list *l, threads_count count, gq_error *e);
void words_cut(word_list *l, size_t n); /* keep the first n */
void words_free(word_list *l);

#endif
