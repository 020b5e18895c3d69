/* The name that GGUF files give to how a text is cut before its pieces are encoded. */
#pragma once

#include "hf/tokenizer/tokenizer_vocabulary.h"

/* Writes tokenizer.ggml.pre by the pre_tokenizer of t->json; an unknown one sets *t->unknown_cut instead. */
bool hf_pretokenizer_write(hf_tokenizer *t, gq_error *e);
