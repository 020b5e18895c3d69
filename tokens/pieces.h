/* Strings by number, and which two of them merge: the tables that tokenizing looks into. */
#ifndef GQ_PIECES_H
#define GQ_PIECES_H

#include "base/error.h"

#define NO_PIECE UINT32_MAX

typedef struct piece {
    const char *text; /* borrowed */
    uint32_t length;
} piece;

typedef struct piece_table {
    piece *items;
    uint32_t n, capacity;
    uint32_t *slots; /* numbers + 1, 0: free */
    uint64_t n_slots, seed;
} piece_table;

/* Makes a table with room for `most` strings, so that adding cannot fail. Texts are borrowed. */
bool pieces_new(piece_table *p, uint64_t most, gq_error *e);
void pieces_free(piece_table *p);
/* The number of a string; NO_PIECE: it is not in the table. */
uint32_t pieces_find(const piece_table *p, const char *text, size_t length);
/* The number of a string; a new one gets the next number, and *fresh is set. */
uint32_t pieces_add(piece_table *p, const char *text, size_t length, bool *fresh);

/* The token that two neighbours merge into. */
typedef struct merge {
    uint32_t left, right;
    uint32_t rank, result;
} merge;

typedef struct merge_table {
    merge *slots; /* left NO_PIECE: free */
    uint64_t n_slots, seed;
} merge_table;

bool merges_new(merge_table *m, uint64_t most, gq_error *e);
void merges_free(merge_table *m);
void merges_add(merge_table *m, const merge *what); /* a pair that is there already stays as it is */
const merge *merges_find(const merge_table *m, uint32_t left, uint32_t right);

#endif
