/* A vocabulary for models made on the spot: letters a to h are tokens 0 to 7, <s> is token 8. */
#ifndef GQ_TEST_TOKEN_MODEL_H
#define GQ_TEST_TOKEN_MODEL_H

#include <string.h>

#include "tests/model.h"

/* begins: texts begin with <s>. */
static inline void token_model_letters(model *m, bool begins) {
    static const char *const tokens[] = {"a", "b", "c", "d", "e", "f", "g", "h", "<s>"};
    uint8_t texts[256] = {GGUF_STRING}, merges[64] = {GGUF_STRING};
    uint64_t n = sizeof tokens / sizeof *tokens, none = 0, length;
    size_t at = 12;
    memcpy(texts + 4, &n, 8);
    for (size_t k = 0; k < n; k++, at += 8 + length) {
        length = strlen(tokens[k]);
        memcpy(texts + at, &length, 8), memcpy(texts + at + 8, tokens[k], length);
    }
    memcpy(merges + 4, &none, 8);
    int32_t types[9] = {[0 ... 7] = 1, [8] = 3};
    model_set_string(m, "tokenizer.ggml.model", "gpt2");
    model_set_string(m, "tokenizer.ggml.pre", "llama-bpe");
    model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, at);
    model_set_array(m, "tokenizer.ggml.token_type", GGUF_INT32, types, 9);
    model_set(m, "tokenizer.ggml.merges", GGUF_ARRAY, merges, 12);
    model_set_u32(m, "tokenizer.ggml.bos_token_id", 8);
    uint8_t add = begins;
    model_set(m, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &add, 1);
}

#endif
