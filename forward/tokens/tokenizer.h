/* A text as tokens of a model's own vocabulary, with the ids that llama.cpp gives.
 *
 *     tokenizer *t = tokenizer_new(path, kv, n_kv, &e);
 *     token_list ids = {0};
 *     if (t && tokenizer_run(t, text, length, TOKENIZE_ADD_SPECIAL, &ids, &e)) ...
 *     free(ids.ids), tokenizer_free(t);
 *
 * Covered are the vocabularies that merge: by score (`llama`), by rank on bytes (`gpt2`) and by rank on
 * characters (`gemma4`); those of words (`bert`) and of unigrams (`t5`). docs/internals/formats.md says what
 * is done to a text; an uncovered kind is an error naming it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "gguf/model.h"

/* The ids of a text, and how many of them may be held. */

/* Zero it before the first use; ids is the owner's to free. */
typedef struct token_list {
    uint32_t *ids;
    size_t n, capacity;
    uint64_t dropped; /* bytes of the text that no token of the vocabulary stands for */
} token_list;

/* Limits of a run, and when it stops. */
typedef struct token_limits {
    uint64_t tokens;               /* stop soon after so many, without an error; 0: at the end of the text */
    uint64_t memory;               /* bytes for ids and all that making them takes; 0: as many as it takes */
    bool (*cancelled)(void *user); /* asked now and then; NULL: nobody is asked */
    void *user;
    size_t piece, window; /* bytes that are cut into words, and joined, at once; 0: what does well */
} token_limits;

/* Whether nobody has asked to stop, and the list may become longer; asks now and then. */
bool token_limits_allow(const token_limits *limits, const token_list *list, gq_error *e);

/* Whether a list of so many ids may be held beside other bytes. */
bool token_limits_hold(const token_limits *limits, const token_list *list, uint64_t ids, uint64_t others,
                       gq_error *e);

bool token_list_add(token_list *l, uint32_t id, gq_error *e);

typedef struct tokenizer tokenizer;

enum {
    TOKENIZE_ADD_SPECIAL = 1,   /* begin with BOS and end with EOS where the vocabulary says so */
    TOKENIZE_PARSE_SPECIAL = 2, /* control tokens that stand in the text are found, too */
};

/* Keys and values are borrowed until tokenizer_free; `file` is for messages. */
tokenizer *tokenizer_new(const char *file, const model_kv *kv, uint64_t n_kv, gq_error *e);
void tokenizer_free(tokenizer *t);
/* Warnings about the vocabulary, n sentences. */
const char *const *tokenizer_warnings(const tokenizer *t, size_t *n);
/* Whether texts begin with a BOS, and which token that is. */
bool tokenizer_begins(const tokenizer *t, uint32_t *bos);
/* Whether texts end with an EOS, or with a separator in its place, and which token that is. */
bool tokenizer_ends(const tokenizer *t, uint32_t *eos);

/* Append the ids of a text, which may be any bytes; of a file no more is read than the tokens need. flags:
 * TOKENIZE_*. On failure the list holds some of them. Memory grows with the list alone, and with the longest
 * word where patterns cut words. Safe from several threads, each with a list of its own. */
bool tokenizer_read(const tokenizer *t, const gq_file *text, unsigned flags, const token_limits *limits,
                    token_list *to, gq_error *e);
/* The same of n bytes, without limits. */
bool tokenizer_run(const tokenizer *t, const char *text, size_t n, unsigned flags, token_list *to,
                   gq_error *e);
/* The lengths of the words that the vocabulary's pre-tokenizer cuts a text into (cleaned: a broken byte
 * counts three), as a list of numbers; only vocabularies by rank on bytes have one. */
bool tokenizer_words(const tokenizer *t, const char *text, size_t n, token_list *lengths, gq_error *e);
