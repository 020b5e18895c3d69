/* Texts as vocabularies of unigrams see them: made normal (charsmap.h), with U+2581 for spaces, and cut into the tokens whose scores
 * have the largest sum. A character that is no token counts as the unknown token, far below all others; neighbours of that kind are one.
 */
#pragma once

#include "forward/tokens/charsmap.h"
#include "forward/tokens/merging.h"

typedef struct unigram {
    text_tree tree; /* the tokens that a text may be cut into, by id */
    text_tree own;  /* those that users have defined */
    float *scores;  /* per token of the vocabulary */
    float unknown;  /* score of the unknown token */
    charsmap map;
    bool adds_space,
        trims; /* a space in front of a text; only one where there are several, and none behind */
} unigram;

/* scores, types: n_tokens numbers of 4 bytes each, or NULL: 0, normal; `file` is for messages. The caller sets what follows the scores. */
unigram *unigram_new(const vocabulary *v, const char *file, const uint8_t *scores, const uint8_t *types,
                     gq_error *e);
void unigram_free(unigram *u);

typedef struct unigram_step unigram_step;

/* What one text after another is cut with. Zero it at first; unigram_work_free frees the steps alone. */
typedef struct unigram_work {
    unigram_step *steps; /* per byte */
    size_t capacity;
    double score;            /* of the text before */
    bool after_unknown;      /* the token before is the unknown one */
    bool has_space, in_text; /* the normal form has a space in front; it is not behind a space */
} unigram_work;
void unigram_work_free(unigram_work *w);

/* Appends the normal form of a text of n bytes to an array, and adds to *done how many were taken: without `last` a few wait for what
 * follows. */
bool unigram_normalize(unigram_work *w, const unigram *u, const char *text, size_t n, bool last, char **to,
                       size_t *length, size_t *capacity, size_t *done, gq_error *e);
/* Appends the ids of a text in its normal form, and adds to *done how many bytes were taken: without `last` those whose tokens
 * do not depend on what follows. */
bool unigram_cut(unigram_work *w, merging *m, const char *text, size_t n, bool last, size_t *done);
