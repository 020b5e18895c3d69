/* Characters as vocabularies of words see them: tables that a range or character of 0 ends, in ascending
 * order. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "forward/tokens/tokenizer.h"
#include "forward/tokens/vocabulary.h"

typedef struct character_range {
    uint32_t first, last;
} character_range;
/* Every step-th character has a small one, `by` after it. */
typedef struct character_case {
    uint32_t first, last, step;
    int32_t by;
} character_case;

extern const character_range characters_punctuation[], characters_left_out[], characters_marks[],
    characters_spaces[];
extern const character_case characters_cases[];
/* Characters that are made of others; and the first one that each of them is made of, in the same order. */
extern const character_range characters_composed[];
extern const uint32_t characters_bases[];

/* Texts as vocabularies by rank see them, and the symbols that words consist of. */

/* Writes the UTF-8 form of a code point below 2^21 and returns its bytes, at most 4. */
size_t utf8_put(char *to, uint32_t code);

/* Clean n bytes into `to` (room for 3 n): decoded leniently (overlong forms and surrogates count), each byte
 * that does not belong becomes U+FFFD, and everything is written in its shortest form. *odd: it holds characters
 * that utf8_stand_in replaces. Fails above U+10FFFF; first: where the bytes begin, for the message. */
bool utf8_clean(const char *text, size_t n, uint64_t first, char *to, size_t *length, bool *odd, gq_error *e);

/* Copy a cleaned text, with stand-ins of the same length and class for what PCRE2 refuses (surrogates) or,
 * before its version 10.43, does not know (what Unicode 15 and 15.1 brought). */
void utf8_stand_in(const char *text, size_t n, char *to);

/* ---- symbols: characters, or a byte each, before neighbours merge ---- */

/* The UTF-8 form of the character that stands for a byte in BPE vocabularies; bytes: 1 or 2. */
size_t symbol_of_byte(uint8_t byte, char to[2]);

/* Bytes of the symbol that a word of `left` bytes begins with. */
size_t symbol_length(vocabulary_kind kind, const char *at, size_t left);

/* Joining neighbours: the one operation that all vocabularies by merging share. */

/* A stretch of a word; length 0: it was joined to its left neighbor. */
typedef struct symbol {
    uint32_t start, length; /* bytes of the word */
    uint32_t piece;         /* number of its text; NO_PIECE: no text of the vocabulary is this character */
    uint32_t before, next;  /* neighbours that are left; UINT32_MAX: none */
} symbol;

typedef struct join {
    uint64_t key; /* rank, then place of the left symbol: the lowest joins first */
    uint32_t length, result;
} join;

/* Memory of a call, zero at first; it grows with the longest stretch that is joined at once. */
typedef struct join_scratch {
    symbol *symbols;
    size_t n, symbols_capacity;
    join *heap;
    size_t n_heap, heap_capacity;
    /* For beginnings of words, made at the first one. lowest: per piece the lowest rank at which it joins
     * with anything behind it, UINT32_MAX: never. any: that may be 0 for symbols that begin with this byte.
     * longest: bytes of the longest piece; 0: too long to be looked up. */
    uint32_t *lowest;
    uint8_t any[256];
    size_t longest;
} join_scratch;

void join_scratch_free(join_scratch *r);
bool join_add_symbol(join_scratch *r, uint32_t start, uint32_t length, uint32_t number, gq_error *e);
/* Join the symbols of a word as long as two neighbours merge. Those that are left have a length. */
bool join_all(const vocabulary *v, const char *word, join_scratch *r, gq_error *e);
/* Join the symbols of the beginning of a word as far as they are certain, whatever comes behind its n bytes.
 * *end: bytes of the certain symbols, which are those of the whole word; nothing joins across that place. */
bool join_beginning(const vocabulary *v, const char *word, size_t n, join_scratch *r, size_t *end,
                    gq_error *e);

/* Words as ids: the symbols of a word are joined, and what is no token in the end is written byte by byte. */

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

/* Bytes that a merging takes at most beside the list, while it joins `window` bytes at once. */
uint64_t merging_bytes(size_t window);

/* n: bytes of the text. */
bool merging_new(merging *m, const vocabulary *v, uint64_t n, const token_limits *limits, token_list *to,
                 gq_error *e);
void merging_free(merging *m);

/* Whether to continue: neither the caller has asked to stop nor are there enough tokens. */
bool merging_goes_on(merging *m);
/* Whether a window may be twice as long, as what follows it decides about all of its tokens. */
bool merging_may_widen(merging *m, size_t window);
/* Appends the ids of a word. */
bool merging_add_word(merging *m, const char *word, size_t n);
/* Appends the ids of as much of a word's beginning as is certain whatever comes behind its n bytes, and adds
 * its bytes to *done; the rest is a word of its own. Less than a window is left as it is. */
bool merging_add_beginning(merging *m, const char *word, size_t n, size_t *done);

/* The normal form of a text for vocabularies of unigrams: sentencepiece's compiled map from what a text
 * begins with to what takes its place, as `tokenizer.ggml.precompiled_charsmap` has it. The map is walked
 * where it lies, and every place is checked on the way, as the file may be anybody's. */

/* Bytes of the longest beginning that is replaced, and of the longest text in its place; real maps have some
 * twenty and forty. */
enum { CHARSMAP_LONGEST = 1024 };

/* Zero: nothing is replaced. */
typedef struct charsmap {
    const uint8_t *units; /* n_units of 4 bytes, borrowed; so are the texts */
    uint32_t n_units;
    const char *texts; /* each ends with a NUL */
    size_t n_texts;
} charsmap;

/* The replacement of `taken` bytes. taken 0: it depends on the bytes that follow. */
typedef struct normal_form {
    const char *text; /* of the map, or of the text itself */
    size_t length, taken;
} normal_form;

/* Opens n bytes of a map; the error says what is wrong with them, for the caller to say whose they are. */
bool charsmap_open(charsmap *m, const uint8_t *bytes, uint64_t n, gq_error *e);
/* Finds the normal form of what n bytes, more than none, begin with. last: nothing follows them. */
bool charsmap_find(const charsmap *m, const char *text, size_t n, bool last, normal_form *form, gq_error *e);

/* Texts as vocabularies of unigrams see them: made normal (charsmap.c), with U+2581 for spaces, and cut into
 * the tokens whose scores have the largest sum. A character that is no token counts as the unknown token, far
 * below all others; neighbours of that kind are one. */

typedef struct unigram {
    text_tree tree; /* the tokens that a text may be cut into, by id */
    text_tree own;  /* tokens that users have defined */
    float *scores;  /* per token of the vocabulary */
    float unknown;  /* score of the unknown token */
    charsmap map;
    bool adds_space,
        trims; /* a space in front of a text; only one where there are several, and none behind */
} unigram;

/* scores, types: n_tokens numbers of 4 bytes each, or NULL: 0, normal; `file` is for messages. The caller
 * sets what follows the scores. */
unigram *unigram_new(const vocabulary *v, const char *file, const uint8_t *scores, const uint8_t *types,
                     gq_error *e);
void unigram_free(unigram *u);

typedef struct unigram_node unigram_node;

/* Work memory of cutting texts, one after another. Zero it at first; unigram_work_free frees only the nodes. */
typedef struct unigram_work {
    unigram_node *nodes; /* per byte */
    size_t capacity;
    double score;            /* of the text before */
    bool after_unknown;      /* the token before is the unknown one */
    bool has_space, in_text; /* the normal form has a space in front; it is not behind a space */
} unigram_work;
void unigram_work_free(unigram_work *w);

/* Appends the normal form of a text of n bytes to an array, and adds to *done how many were taken: without
 * `last` a few wait for what follows. */
bool unigram_normalize(unigram_work *w, const unigram *u, const char *text, size_t n, bool last, char **to,
                       size_t *length, size_t *capacity, size_t *done, gq_error *e);
/* Appends the ids of a text in its normal form, and adds to *done how many bytes were taken: without `last`
 * those whose tokens do not depend on what follows. */
bool unigram_cut(unigram_work *w, merging *m, const char *text, size_t n, bool last, size_t *done);

/* Special tokens that stand in a text. */

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

/* Cuts a text into fragments, in order. Of n bytes that are not the text's last the fragments have only the beginning
 * that is certain, and the rest, cut with what follows it, has the others; there the last fragment may continue.
 * control: control tokens are found as well. */
bool specials_cut(const specials *s, const vocabulary *v, const char *text, size_t n, bool last, bool control,
                  special_cuts *to, gq_error *e);

/* Texts as vocabularies of words see them: cut at white space, at punctuation and at Chinese characters;
 * capitals are made small and accents taken off, where the vocabulary wants that; then each word is cut from
 * the left into the longest tokens. A word that cannot be cut so is one unknown token. */

/* A word in the making, behind U+2581. Free `text` in the end. */
typedef struct words_maker {
    const vocabulary *v;
    token_list *to;
    char *text;
    size_t n, capacity;
    gq_error *e;
} words_maker;

/* Appends the ids of a text of n bytes, cleaned (tokens.h), and adds to *done how many bytes were taken: without
 * `last` all but the word that may continue. */
bool words_add(words_maker *m, const char *text, size_t n, bool last, size_t *done);
