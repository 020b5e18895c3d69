/* Words as ids: the symbols of a word are joined, and what is no token in the end is written byte by byte. */
#pragma once

#include "forward/tokens/join.h"
#include "forward/tokens/token_list.h"
#include "forward/tokens/vocabulary.h"

typedef struct cached_word cached_word;

/* The work of a call. */
typedef struct merging {
    const vocabulary *v;
    const token_limits *limits;
    size_t window; /* bytes of a word that are joined at once */
    uint64_t held; /* of limits->memory, by all of the run */
    join_scratch scratch;
    cached_word *cache;
    size_t cache_slots; /* a power of two */
    token_list *to;
    bool enough; /* the list has as many tokens as are wanted; what stopped for that has returned false */
    gq_error *e;
} merging;

/* Bytes that a merging takes at most besides the list, while it joins `window` bytes at once. */
uint64_t merging_bytes(size_t window);

/* n: bytes of the text. */
bool merging_new(merging *m, const vocabulary *v, uint64_t n, const token_limits *limits, token_list *to,
                 gq_error *e);
void merging_free(merging *m);

/* Whether to go on: neither the caller has asked to stop nor are there enough tokens. */
bool merging_goes_on(merging *m);
/* Whether a window may be twice as long, as what follows it decides about all of its tokens. */
bool merging_may_widen(merging *m, size_t window);
/* Appends the ids of a word. */
bool merging_add_word(merging *m, const char *word, size_t n);
/* Appends the ids of as much of a word's beginning as is certain whatever comes behind its n bytes, and adds
 * its bytes to *done; the rest is a word of its own. Less than a window is left as it is. */
bool merging_add_beginning(merging *m, const char *word, size_t n, size_t *done);
