/* Words: how a vocabulary by rank on bytes cuts a text before it merges, by its `tokenizer.ggml.pre`. */
#pragma once

#include "base/error.h"

enum { SPLIT_MOST = 6 }; /* patterns of a list */

/* Two members of lists that are no patterns to match but find runs of digits, which are then cut into groups
 * of three from the right: as patterns, their looking ahead over the rest of the run would be quadratic. */
extern const char SPLIT_TRIPLES[];         /* a cut before each group of ASCII digits */
extern const char SPLIT_TRIPLES_OF_TEXT[]; /* the first group of a run keeps the text before it */

/* The splitting rules behind a pre value. */
typedef struct split_rule {
    bool raw;           /* characters instead of bytes: no pattern, only runs of newlines are cut off */
    bool ignore_merges; /* a word that is a token stays whole */
    bool add_bos;       /* unless the file says otherwise */
    bool always_bos;    /* whatever the file says */
    bool no_bos;        /* there is no BOS unless the file names one */
    const char *const
        *patterns; /* applied one after the other, to the pieces that are left; ends with NULL */
} split_rule;

/* False: an unknown value. */
bool split_rule_find(const char *pre, size_t length, split_rule *rule);

typedef struct splitter splitter;
splitter *splitter_new(const split_rule *rule, gq_error *e);
void splitter_free(splitter *s);

/* Called for each word, in order; false stops. */
typedef bool split_word(void *user, const char *word, size_t length, gq_error *e);
/* Cut n bytes of `subject`, well-formed UTF-8, and hand out the same places of `text`. done NULL: that is the
 * whole of it. Else it is a beginning, of which only the words are handed out that stay words whatever comes
 * behind; *done: their bytes. The rest, with what comes behind, is cut by itself into the other words. */
bool splitter_run(const splitter *s, const char *subject, const char *text, size_t n, size_t *done,
                  split_word *word, void *user, gq_error *e);
