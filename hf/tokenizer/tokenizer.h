/* tokenizer.ggml.*: a vocabulary, its special ids, chat templates, and the name of how a text is cut before
 * it is encoded, from tokenizer.json or tokenizer.model and the files beside them. */
#pragma once

#include "hf/folder/config.h"
#include "hf/folder/pairs.h"

/* Adds the pairs; *n_tokens is the length of the vocabulary, which the embedding must have rows for.
 * *unknown_cut (the caller frees it; may become NULL): a sentence with the regular expression of a
 * pre-tokenizer that no name is known for; then tokenizer.ggml.pre is missing, and the caller decides. */
bool hf_tokenizer_pairs(hf_folder *f, const hf_config *c, hf_pairs *pairs, uint64_t *n_tokens,
                        char **unknown_cut, gq_error *e);
