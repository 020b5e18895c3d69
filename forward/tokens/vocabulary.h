/* A model's vocabulary from its metadata, in the form that tokenizing needs. */
#pragma once

#include "forward/tokens/pieces.h"
#include "forward/tokens/splitter.h"
#include "gguf/model.h"

typedef enum vocabulary_kind {
    VOCABULARY_SPM,     /* characters, joined by score */
    VOCABULARY_BPE,     /* bytes, joined by rank */
    VOCABULARY_RAW,     /* characters, joined by rank */
    VOCABULARY_WORDS,   /* words, cut from the left into the longest tokens */
    VOCABULARY_UNIGRAM, /* characters, cut into the tokens of the largest sum of scores */
} vocabulary_kind;

/* The kind of a token in a text. */
typedef enum token_class { TOKEN_PLAIN, TOKEN_CONTROL, TOKEN_USER } token_class;

enum { VOCABULARY_WARNINGS = 4 };

typedef struct vocabulary {
    vocabulary_kind kind;
    piece_table pieces; /* the tokens, numbered by id; behind them texts that only merges have */
    uint32_t n_tokens;
    uint32_t longest;                /* bytes of the longest token */
    uint8_t *classes;                /* token_class per token */
    uint32_t *ranks;                 /* SPM, per token: the lower, the earlier its halves join */
    merge_table merges;              /* the others */
    char *texts;                     /* of pieces that are no token, and of tokens without a text */
    uint32_t bos, eos, sep, unknown; /* NO_PIECE: none */
    bool add_bos, add_eos, add_sep, space_prefix;
    bool lowers, strips_accents; /* WORDS: characters are made small; accents go */
    bool strips;                 /* white space behind special tokens goes */
    bool cut_at_spaces;          /* no text of the vocabulary has U+2581 behind another character */
    uint32_t bytes[256];         /* tokens <0xHH> */
    uint32_t single[256];        /* tokens whose text is that one byte */
    uint32_t mapped[256];        /* BPE: the piece of the character that stands for a byte */
    struct unigram *unigram;     /* UNIGRAM (unigram.h) */
    split_rule rule;
    splitter *splitter; /* BPE */
    size_t n_warnings;
    char *warnings[VOCABULARY_WARNINGS];
} vocabulary;

bool vocabulary_read(vocabulary *v, const char *file, const model_kv *kv, uint64_t n_kv, gq_error *e);
void vocabulary_free(vocabulary *v);
