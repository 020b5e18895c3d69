/* A model's vocabulary from its metadata, in the form that tokenizing needs. */
#pragma once

#include "base/error.h"
#include "forward/tokens/splitter.h"
#include "gguf/model.h"

/* The tables that tokenizing looks into: strings by number, which two of them merge, and texts as a tree. */

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
void merges_add(merge_table *m, const merge *what); /* a pair that already exists stays as it is */
const merge *merges_find(const merge_table *m, uint32_t left, uint32_t right);

/* Texts as a tree over their bytes, so that a text is searched for all of them at once. */

#define TREE_NONE UINT32_MAX

typedef struct tree_edge {
    uint64_t key;   /* parent's number x 256 + byte */
    uint32_t child; /* 0, the root: a free slot */
} tree_edge;

/* {.seed = ...} is a tree without texts, which has its root, node 0, from the first text on. */
typedef struct text_tree {
    tree_edge *edges;
    uint64_t n_edges, seed; /* a power of two, or 0 */
    uint32_t *values;       /* per node: the value + 1 of the text that ends there, 0: none */
    size_t capacity;
    uint32_t n_nodes;
} text_tree;

/* Adds a text with a value below TREE_NONE; a text that already exists gets the new one. */
bool tree_add(text_tree *t, const char *text, size_t n, uint32_t value, gq_error *e);
void tree_free(text_tree *t);

/* The node that a byte leads to from another; 0: no text continues so. */
uint32_t tree_child(const text_tree *t, uint32_t node, uint8_t byte);
/* The value of the text that ends at a node of the tree; TREE_NONE: none does. */
static inline uint32_t tree_value(const text_tree *t, uint32_t node) { return t->values[node] - 1; }

typedef enum vocabulary_kind {
    VOCABULARY_SPM,     /* characters, joined by score */
    VOCABULARY_BPE,     /* bytes, joined by rank */
    VOCABULARY_RAW,     /* characters, joined by rank */
    VOCABULARY_WORDS,   /* words, cut from the left into the longest tokens */
    VOCABULARY_UNIGRAM, /* characters, cut into the tokens of the largest sum of scores */
} vocabulary_kind;

/* The kind of a token in a text. */
typedef enum token_class { TOKEN_PLAIN, TOKEN_CONTROL, TOKEN_USER } token_class;

enum { VOCABULARY_WARNINGS = 4 };

typedef struct vocabulary {
    vocabulary_kind kind;
    piece_table pieces; /* the tokens, numbered by id; behind them texts that only merges have */
    uint32_t n_tokens;
    uint32_t longest;                /* bytes of the longest token */
    uint8_t *classes;                /* token_class per token */
    uint32_t *ranks;                 /* SPM, per token: the lower, the earlier its halves join */
    merge_table merges;              /* the others */
    char *texts;                     /* of pieces that are no token, and of tokens without a text */
    uint32_t bos, eos, sep, unknown; /* NO_PIECE: none */
    bool add_bos, add_eos, add_sep, space_prefix;
    bool lowers, strips_accents; /* WORDS: characters are made small; accents go */
    bool strips;                 /* white space behind special tokens goes */
    bool cut_at_spaces;          /* no text of the vocabulary has U+2581 behind another character */
    uint32_t bytes[256];         /* tokens <0xHH> */
    uint32_t single[256];        /* tokens whose text is that one byte */
    uint32_t mapped[256];        /* BPE: the piece of the character that stands for a byte */
    struct unigram *unigram;     /* UNIGRAM (unigram.c) */
    split_rule rule;
    splitter *splitter; /* BPE */
    size_t n_warnings;
    char *warnings[VOCABULARY_WARNINGS];
} vocabulary;

bool vocabulary_read(vocabulary *v, const char *file, const model_kv *kv, uint64_t n_kv, gq_error *e);
void vocabulary_free(vocabulary *v);
