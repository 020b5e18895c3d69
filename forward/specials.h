/* Special tokens that stand in a text. */
#ifndef GQ_SPECIALS_H
#define GQ_SPECIALS_H

#include "forward/vocabulary.h"

/* Texts of special tokens as a tree over bytes, so that a text is searched for all of them at once. */
typedef struct special_edge {
    uint64_t key;   /* parent's number x 256 + byte */
    uint32_t child; /* 0, the root: a free slot */
} special_edge;

typedef struct specials {
    uint32_t *order; /* special tokens, longest first, then by id */
    uint32_t n;
    special_edge *edges;
    uint64_t n_edges, seed;
    uint32_t *ends; /* per node: place in `order` + 1 of the token that ends there, 0: none */
    uint32_t n_nodes;
} specials;

bool specials_new(specials *s, const vocabulary *v, gq_error *e);
void specials_free(specials *s);

/* A stretch of the text: a special token, or bytes without one (token NO_PIECE). */
typedef struct fragment {
    size_t start, length;
    uint32_t token;
} fragment;

/* Cuts n bytes into fragments, in order; *to is malloc'ed. control: control tokens are found as well. */
bool specials_cut(const specials *s, const vocabulary *v, const char *text, size_t n, bool control,
                  fragment **to, size_t *n_fragments, gq_error *e);

#endif
