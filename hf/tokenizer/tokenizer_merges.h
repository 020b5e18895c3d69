/* Vocabularies and merges of tokenizer.json. */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

/* Whether tokenizer.json holds a sentencepiece model: merges of characters, bytes for what is unknown. */
bool hf_json_has_pieces(const hf_tokenizer *t);
/* Whether such a file puts a space in front of texts. */
bool hf_json_adds_space(const hf_tokenizer *t);
/* Reads the vocabulary of such a file as pieces: scores are made from the merges. is_gemma4: it will be run
 * by its merges, and a few of its control tokens are the user's. */
bool hf_json_pieces_vocabulary(hf_tokenizer *t, bool is_gemma4, gq_error *e);
/* Reads the vocabulary of tokenizer.json for merges of bytes. */
bool hf_json_vocabulary(hf_tokenizer *t, uint32_t multiple, gq_error *e);
/* The halves of a merge, which are not NUL-terminated. */
typedef struct hf_merge {
    const char *left, *right;
    size_t n_left, n_right;
} hf_merge;
/* Splits an element of "merges", "left right" or [left, right]. False: it is neither. */
bool hf_merge_split(const json_t *merge, hf_merge *m);
/* Writes the merges of tokenizer.json, or of merges.txt. */
bool hf_merges_write(hf_tokenizer *t, gq_error *e);
