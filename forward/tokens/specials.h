/* Special tokens that stand in a text. */
#pragma once

#include "forward/tokens/vocabulary.h"

typedef struct specials {
    uint32_t *order; /* special tokens, longest first, then by id */
    uint32_t n;
    text_tree tree; /* their texts, each with its token's place in `order` */
} specials;

/* Correct the classes by well-known texts, as llama.cpp does. */
void vocabulary_correct_classes(vocabulary *v, const model_kv *kv, uint64_t n_kv);

bool specials_new(specials *s, const vocabulary *v, gq_error *e);
void specials_free(specials *s);

/* A stretch of the text: a special token, or bytes without one (token NO_PIECE). */
typedef struct fragment {
    size_t start, length;
    uint32_t token;
} fragment;

typedef struct special_cuts {
    fragment *items; /* the owner's to free */
    size_t n, capacity;
    size_t end; /* bytes of the text that the fragments are of */
} special_cuts;

/* Cuts a text into fragments, in order. Of n bytes that are not the text's last the fragments have only the
 * beginning that is certain, and the rest, cut with what follows it, has the others; there the last fragment
 * may go on. control: control tokens are found as well. */
bool specials_cut(const specials *s, const vocabulary *v, const char *text, size_t n, bool last, bool control,
                  special_cuts *to, gq_error *e);
