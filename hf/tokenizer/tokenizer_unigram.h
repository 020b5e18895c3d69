/* Vocabularies of tokenizer.json whose tokens have scores, the largest sum of which decides (unigrams). */
#ifndef GQ_HF_TOKENIZER_UNIGRAM_H
#define GQ_HF_TOKENIZER_UNIGRAM_H

#include "hf/tokenizer/tokenizer_parts.h"

bool hf_json_has_unigrams(const hf_tokenizer *t);
/* Reads and writes the vocabulary, the map of characters, and the number of kinds of tokens. */
bool hf_json_unigrams_write(hf_tokenizer *t, gq_error *e);

#endif
