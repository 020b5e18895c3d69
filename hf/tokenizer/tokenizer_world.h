/* The vocabulary of RWKV's "world" models. */
#ifndef GQ_HF_TOKENIZER_WORLD_H
#define GQ_HF_TOKENIZER_WORLD_H

#include "hf/tokenizer/tokenizer_parts.h"

/* Reads rwkv_vocab_v20230424.txt and writes all pairs of the tokenizer. */
bool hf_world_write(hf_tokenizer *t, gq_error *e);

#endif
