/* Texts as vocabularies by rank see them, and the symbols that words consist of. */
#pragma once

#include "forward/tokens/vocabulary.h"

/* Writes the UTF-8 form of a code point below 2^21 and returns its bytes, at most 4. */
size_t utf8_put(char *to, uint32_t code);

/* Clean n bytes into `to` (room for 3 n): decoded leniently (overlong forms and surrogates count), each byte
 * that does not belong becomes U+FFFD, and everything is written in its shortest form. *odd: it holds
 * characters that utf8_stand_in replaces. Fails above U+10FFFF; first: where the bytes begin, for the
 * message. */
bool utf8_clean(const char *text, size_t n, uint64_t first, char *to, size_t *length, bool *odd, gq_error *e);

/* Copy a cleaned text, with stand-ins of the same length and class for what PCRE2 refuses (surrogates) or,
 * before its version 10.43, does not know (what Unicode 15 and 15.1 brought). */
void utf8_stand_in(const char *text, size_t n, char *to);

/* ---- symbols: characters, or a byte each, before neighbours merge ---- */

/* The UTF-8 form of the character that stands for a byte in BPE vocabularies; bytes: 1 or 2. */
size_t symbol_of_byte(uint8_t byte, char to[2]);

/* Bytes of the symbol that a word of `left` bytes begins with. */
size_t symbol_length(vocabulary_kind kind, const char *at, size_t left);
