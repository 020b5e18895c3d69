/* Texts as a tree over their bytes, so that a text is searched for all of them at once. */
#ifndef GQ_TOKENS_TREE_H
#define GQ_TOKENS_TREE_H

#include "base/error.h"

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

/* Adds a text with a value below TREE_NONE; a text that is there already gets the new one. */
bool tree_add(text_tree *t, const char *text, size_t n, uint32_t value, gq_error *e);
void tree_free(text_tree *t);

/* The node that a byte leads to from another; 0: no text goes on so. */
uint32_t tree_step(const text_tree *t, uint32_t node, uint8_t byte);
/* The value of the text that ends at a node of the tree; TREE_NONE: none does. */
static inline uint32_t tree_value(const text_tree *t, uint32_t node) { return t->values[node] - 1; }

#endif
