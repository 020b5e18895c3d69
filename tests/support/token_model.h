/* A vocabulary for synthetic models: letters a to h are tokens 0 to 7, <s> is token 8. */
#pragma once

#include "tests/support/model.h"

/* begins: texts begin with <s>. rows: of the embedding; tokens after <s> are in no text. */
static inline void token_model_letters(model *m, bool begins, uint64_t rows) {
    static const char *const tokens[] = {"a", "b", "c", "d", "e", "f", "g", "h", "<s>"};
    uint8_t merges[64] = {GGUF_STRING}, *texts = calloc(rows + 1, 32);
    int32_t *types = calloc(rows + 1, sizeof *types);
    uint64_t none = 0;
    size_t at = 12;
    *texts = GGUF_STRING, memcpy(texts + 4, &rows, 8);
    for (uint64_t k = 0; k < rows; k++) {
        char name[32];
        snprintf(name, sizeof name, "<unused%llu>", (unsigned long long)k);
        const char *text = k < 9 ? tokens[k] : name;
        uint64_t length = strlen(text);
        memcpy(texts + at, &length, 8), memcpy(texts + at + 8, text, length);
        at += 8 + length, types[k] = k < 8 ? 1 : k == 8 ? 3 : 5;
    }
    memcpy(merges + 4, &none, 8);
    model_set_string(m, "tokenizer.ggml.model", "gpt2");
    model_set_string(m, "tokenizer.ggml.pre", "llama-bpe");
    model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, at);
    model_set_array(m, "tokenizer.ggml.token_type", GGUF_INT32, types, rows);
    model_set(m, "tokenizer.ggml.merges", GGUF_ARRAY, merges, 12);
    model_set_u32(m, "tokenizer.ggml.bos_token_id", 8);
    uint8_t add = begins;
    model_set(m, "tokenizer.ggml.add_bos_token", GGUF_BOOL, &add, 1);
    free(texts), free(types);
}
