/* The vocabulary of PLaMo, which is neither merges nor a sentencepiece model. */
#ifndef GQ_HF_TOKENIZER_LINES_H
#define GQ_HF_TOKENIZER_LINES_H

#include "hf/tokenizer/tokenizer_parts.h"

/* Reads tokenizer.jsonl and writes all pairs of the tokenizer but its template. */
bool hf_lines_write(hf_tokenizer *t, gq_error *e);

#endif
