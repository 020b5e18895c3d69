/* What words consist of before neighbours merge: characters, or a byte each. */
#ifndef GQ_SYMBOLS_H
#define GQ_SYMBOLS_H

#include "tokens/vocabulary.h"

/* The UTF-8 form of the character that stands for a byte in BPE vocabularies; bytes: 1 or 2. */
size_t symbol_of_byte(uint8_t byte, char to[2]);

/* Bytes of the symbol that a word of `left` bytes begins with. */
size_t symbol_length(vocabulary_kind kind, const char *at, size_t left);

#endif
