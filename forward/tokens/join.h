/* Joining neighbours: the one step that all vocabularies by merging share. */
#pragma once

#include "forward/tokens/vocabulary.h"

/* A stretch of a word; length 0: it was joined to its left neighbour. */
typedef struct symbol {
    uint32_t start, length; /* bytes of the word */
    uint32_t piece;         /* number of its text; NO_PIECE: no text of the vocabulary is this character */
    uint32_t before, next;  /* neighbours that are left; UINT32_MAX: none */
} symbol;

typedef struct join {
    uint64_t key; /* rank, then place of the left symbol: the lowest joins first */
    uint32_t length, result;
} join;

/* Memory of a call, zero at first; it grows with the longest stretch that is joined at once. */
typedef struct join_scratch {
    symbol *symbols;
    size_t n, symbols_capacity;
    join *heap;
    size_t n_heap, heap_capacity;
    /* For beginnings of words, made at the first one. lowest: per piece the lowest rank at which it joins
     * with anything behind it, UINT32_MAX: never. any: that may be 0 for symbols that begin with this byte.
     * longest: bytes of the longest piece; 0: too long to be looked up. */
    uint32_t *lowest;
    uint8_t any[256];
    size_t longest;
} join_scratch;

void join_scratch_free(join_scratch *r);
bool join_add_symbol(join_scratch *r, uint32_t start, uint32_t length, uint32_t number, gq_error *e);
/* Join the symbols of a word as long as two neighbours merge. Those that are left have a length. */
bool join_all(const vocabulary *v, const char *word, join_scratch *r, gq_error *e);
/* Join the symbols of the beginning of a word as far as they are certain, whatever comes behind its n bytes.
 * *end: bytes of the certain symbols, which are those of the whole word; nothing joins across that place. */
bool join_beginning(const vocabulary *v, const char *word, size_t n, join_scratch *r, size_t *end,
                    gq_error *e);
