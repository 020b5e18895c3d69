/* Vocabularies that have a token a line: PLaMo's, Qwen 1's bytes in the order of their ranks, and RWKV's. */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

/* Reads tokenizer.jsonl and writes all pairs of the tokenizer but its template. */
bool hf_lines_write(hf_tokenizer *t, gq_error *e);
/* Reads qwen.tiktoken and writes all pairs of the tokenizer. */
bool hf_ranks_write(hf_tokenizer *t, gq_error *e);
/* The same of rwkv_vocab_v20230424.txt. */
bool hf_world_write(hf_tokenizer *t, gq_error *e);
