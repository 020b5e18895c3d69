/* Vocabularies of tokenizer.json whose words are cut into the longest tokens (WordPiece), or whose tokens have scores, the
 * largest sum of which decides (unigrams). */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

bool hf_json_has_words(const hf_tokenizer *t);
/* Reads the vocabulary. U+2581 goes before tokens that begin a word, and "##" is cut off the others. */
bool hf_words_vocabulary(hf_tokenizer *t, gq_error *e);
/* Writes the name of how texts are cut, what is done to characters, and the number of kinds of tokens. */
bool hf_words_write(hf_tokenizer *t, gq_error *e);

bool hf_json_has_unigrams(const hf_tokenizer *t);
/* Reads and writes the vocabulary, the map of characters, and the number of kinds of tokens. */
bool hf_json_unigrams_write(hf_tokenizer *t, gq_error *e);
