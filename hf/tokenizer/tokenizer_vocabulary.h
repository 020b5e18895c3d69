/* A vocabulary in the making: tokens set by number, and written when all are known. */
#ifndef GQ_HF_TOKENIZER_VOCABULARY_H
#define GQ_HF_TOKENIZER_VOCABULARY_H

#include "hf/tokenizer/tokenizer_parts.h"

bool hf_is_utf8(const char *text, size_t n);
/* Decodes base64 of n digits with their padding; `to` holds 3 bytes for each 4. False: it is none. */
bool hf_base64(const char *text, size_t n, uint8_t *to, size_t *length);

/* Reads the number of a token: a JSON integer, or (a key of an object) its digits. Negative ones and those of
 * 2^32 or more are errors. */
bool hf_token_id(const hf_tokenizer *t, const char *file, const json_t *id, uint64_t *value, gq_error *e);
bool hf_token_id_of_key(const hf_tokenizer *t, const char *file, const char *key, uint64_t *value,
                        gq_error *e);
/* Sets t->n to the config's vocab_size, or without one to `counted`, rounded up to a multiple. */
bool hf_tokenizer_size(hf_tokenizer *t, uint64_t counted, uint32_t multiple, gq_error *e);
/* Returns token `id`, which must be below t->n; valid until the next call. NULL: no memory. */
hf_token *hf_tokenizer_at(hf_tokenizer *t, uint64_t id, gq_error *e);
/* Keeps a text for the vocabulary's life; NULL: no memory. */
const char *hf_tokenizer_keep(hf_tokenizer *t, const char *text, size_t n, gq_error *e);
/* Sets an added token: `score`; control if `is_control`, else the user's, whose U+2581 become spaces unless
 * `is_verbatim`. */
bool hf_tokenizer_add(hf_tokenizer *t, uint64_t id, const char *text, size_t n, float score, bool is_control,
                      bool is_verbatim, gq_error *e);
/* Whether a text has the form of a token that stands for no text, whatever its file says. */
bool hf_looks_special(const char *text, size_t n);
/* Writes tokens, types and, if wanted, scores. */
bool hf_tokenizer_write(hf_tokenizer *t, bool with_scores, gq_error *e);
/* The string of an object's member, or of a string; NULL: neither. */
const json_t *hf_token_content(const json_t *token);

#endif
