/* The normal form of a text for vocabularies of unigrams: sentencepiece's compiled map from what a text begins with to what
 * takes its place, as `tokenizer.ggml.precompiled_charsmap` has it. The map is walked where it lies, and every place is checked on
 * the way, as the file may be anybody's.
 */
#pragma once

#include "base/error.h"

/* Bytes of the longest beginning that is replaced, and of the longest text in its place; real maps have some twenty and forty. */
enum { CHARSMAP_LONGEST = 1024 };

/* Zero: nothing is replaced. */
typedef struct charsmap {
    const uint8_t *units; /* n_units of 4 bytes, borrowed; so are the texts */
    uint32_t n_units;
    const char *texts; /* each ends with a NUL */
    size_t n_texts;
} charsmap;

/* What takes the place of `taken` bytes. taken 0: that depends on what follows. */
typedef struct normal_form {
    const char *text; /* of the map, or of the text itself */
    size_t length, taken;
} normal_form;

/* Opens n bytes of a map; the error says what is wrong with them, for the caller to say whose they are. */
bool charsmap_open(charsmap *m, const uint8_t *bytes, uint64_t n, gq_error *e);
/* Finds the normal form of what n bytes, more than none, begin with. last: nothing follows them. */
bool charsmap_find(const charsmap *m, const char *text, size_t n, bool last, normal_form *form, gq_error *e);
