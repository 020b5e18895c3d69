/* The meaning of a value of `tokenizer.ggml.pre`: how texts are split before bytes are merged. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

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
bool pretokenizers_find(const char *pre, size_t length, split_rule *rule);
