/* Sums of vectors over numbered leaves in a fixed binary tree, which several ranks can form.
 *
 * The tree is that of the leaves' numbers in binary: leaves 2 i and 2 i + 1 are added, then pairs of pairs,
 * each as left + right. Leaves that do not exist are left out: a node with one child is that child. So the
 * total depends on the leaves alone, not on who has which of them.
 *
 * A fold has the leaves of a contiguous share, which are given in order. It holds the sums of whole subtrees
 * that do not belong together yet: at most one per level of the tree where the share begins with leaf 0, else
 * two. fold_append joins the folds of neighboring shares. */
#pragma once

#include "base/error.h"

/* The sum of a subtree. */
typedef struct fold_node {
    uint64_t first; /* number of its first leaf */
    double *sums;
} fold_node;

typedef struct fold {
    uint64_t begin; /* the first leaf of the share; it need not exist */
    size_t length;  /* of vectors */
    size_t n, capacity;
    fold_node *nodes; /* n of them, in order of their leaves; `capacity` have memory */
} fold;

/* Nodes that a fold of the leaves from begin to end - 1 has at most. */
size_t fold_most_nodes(uint64_t begin, uint64_t end);
/* Bytes that a fold takes with so many nodes. */
uint64_t fold_bytes(size_t length, size_t nodes);

void fold_free(fold *f); /* also one of zeros */
/* Begins a leaf, whose number is above that of all before. Returns its vector, of zeros, to which its owner
 * adds until the next call. NULL: no memory. */
double *fold_begin_leaf(fold *f, uint64_t number, gq_error *e);
/* Adds subtrees behind those of f: what fold_end left of the next share. */
bool fold_append(fold *f, uint64_t first, const double *sums, gq_error *e);
/* No leaf comes before leaf `end` any more. */
void fold_end(fold *f, uint64_t end);
/* Returns the sums of all leaves of a share that begins with leaf 0; NULL: there was no leaf. */
const double *fold_total(fold *f);
