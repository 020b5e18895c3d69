/* Texts as vocabularies of words see them: cut at white space, at punctuation and at Chinese characters; capitals are
 * made small and accents taken off, where the vocabulary wants that; then each word is cut from the left into the
 * longest tokens. A word that cannot be cut so is one unknown token. */
#pragma once

#include "forward/tokens/token_list.h"
#include "forward/tokens/vocabulary.h"

/* A word in the making, behind U+2581. Free `text` in the end. */
typedef struct words_maker {
    const vocabulary *v;
    token_list *to;
    char *text;
    size_t n, capacity;
    gq_error *e;
} words_maker;

/* Appends the ids of a text of n bytes, cleaned (utf8.h), and adds to *done how many bytes were taken: without `last`
 * all but the word that may go on. */
bool words_add(words_maker *m, const char *text, size_t n, bool last, size_t *done);
