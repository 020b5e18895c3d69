/* The vocabulary of Qwen 1: bytes of tokens in the order of their ranks. */
#ifndef GQ_HF_TOKENIZER_RANKS_H
#define GQ_HF_TOKENIZER_RANKS_H

#include "hf/tokenizer/tokenizer_parts.h"

/* Reads qwen.tiktoken and writes all pairs of the tokenizer. */
bool hf_ranks_write(hf_tokenizer *t, gq_error *e);

#endif
