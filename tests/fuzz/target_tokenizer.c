/* A vocabulary from a file, and a text: whatever they hold, ids are tokens of the vocabulary, and the same
 * the second time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward/tokens/tokenizer.h"
#include "gguf/gguf.h"
#include "gguf/model.h"
#include "tests/fuzz/fuzz.h"

static void try_text(const tokenizer *t, uint64_t tokens, const char *text, size_t n, unsigned flags) {
    token_list first = {0}, second = {0};
    gq_error e = {0};
    bool ok = tokenizer_run(t, text, n, flags, &first, &e);
    if (!ok) fuzz_check_error(&e);
    for (size_t i = 0; i < first.n; i++) PROMISE(first.ids[i] < tokens, "id %u", first.ids[i]);
    PROMISE(tokenizer_run(t, text, n, flags, &second, &e) == ok, "%s", e.text);
    PROMISE(first.n == second.n && (!first.n || !memcmp(first.ids, second.ids, first.n * sizeof *first.ids)),
            "%zu and %zu ids", first.n, second.n);
    free(first.ids), free(second.ids);
}

static uint64_t count_tokens(const model_source *m) {
    uint32_t type;
    uint64_t n = 0;
    const uint8_t *elements;
    const model_kv *tokens = model_kv_find(m->kv, m->n_kv, "tokenizer.ggml.tokens");
    PROMISE(tokens && model_kv_array(tokens, &type, &n, &elements), "a tokenizer without %s", "tokens");
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    fuzz_input in = {bytes, n};
    unsigned flags = fuzz_byte(&in) & 3;
    size_t size = fuzz_u16(&in);
    if (size > in.n) size = in.n;
    uint8_t *file = fuzz_copy(in.bytes, size), *text = fuzz_copy(in.bytes + size, in.n - size);
    model_source m;
    gq_error e = {0};
    if (gguf_model_memory(&m, "fuzz", file, size, &e)) {
        tokenizer *t = tokenizer_new("fuzz", m.kv, m.n_kv, &e);
        if (t)
            try_text(t, count_tokens(&m), (const char *)text, in.n - size, flags);
        else
            fuzz_check_error(&e);
        tokenizer_free(t);
        model_close(&m);
    } else {
        fuzz_check_error(&e);
    }
    free(file), free(text);
    return 0;
}

/* ---- seeds ---- */

static void set_texts(gguf_header *h, const char *key, const char *const *texts, uint64_t n) {
    uint8_t value[4096];
    uint32_t type = GGUF_STRING;
    size_t at = 12;
    memcpy(value, &type, 4), memcpy(value + 4, &n, 8);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t length = strlen(texts[i]);
        memcpy(value + at, &length, 8), memcpy(value + at + 8, texts[i], length);
        at += 8 + length;
    }
    gguf_header_set(h, key, GGUF_ARRAY, value, at, NULL);
}

static void set_numbers(gguf_header *h, const char *key, uint32_t type, const void *numbers, uint64_t n) {
    uint8_t value[256];
    memcpy(value, &type, 4), memcpy(value + 4, &n, 8), memcpy(value + 12, numbers, 4 * n);
    gguf_header_set(h, key, GGUF_ARRAY, value, 12 + 4 * n, NULL);
}

void fuzz_seeds(const char *folder) {
    static const char *const kinds[][2] = {
        {"llama", "default"}, {"gemma4", "default"}, {"gpt2", "llama-bpe"}, {"gpt2", "deepseek-llm"},
        {"gpt2", "superbpe"}, {"gpt2", "tiny_aya"},  {"t5", "default"}};
    /* A map of characters: 'a' becomes "b ". */
    static const uint32_t map[256] = {[0] = 128 << 10, [128 ^ 'a'] = 'a' | 1 << 8 | (128 ^ 'a' ^ 2) << 10};
    static const char *const tokens[] = {"a",        "b",         "ab",  "aba",  "\xe2\x96\x81",
                                         "\xc4\xa0", "\304\240a", "<s>", "</s>", "<0x41>",
                                         "<|x|>",    "1",         "11"};
    static const char *const merges[] = {"a b", "ab a", "\xc4\xa0 a", "1 1"};
    static const int32_t types[] = {1, 1, 1, 1, 1, 1, 1, 3, 3, 6, 4, 1, 1};
    static const float scores[] = {0, 0, -1, -2, 0, 0, -1, 0, 0, 0, 0, 0, -1};
    static const char text[] = "ab aba<|x|>1111 b\xff\xe4\xb8\xad</s>\n\na'll";
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        gguf_header *h = gguf_header_new(NULL);
        const uint8_t *head;
        uint64_t n, data;
        gguf_header_set_string(h, "general.name", "Phi-3", NULL);
        gguf_header_set_string(h, "tokenizer.ggml.model", kinds[i][0], NULL);
        gguf_header_set_string(h, "tokenizer.ggml.pre", kinds[i][1], NULL);
        gguf_header_set_u32(h, "tokenizer.ggml.bos_token_id", 7, NULL);
        set_texts(h, "tokenizer.ggml.tokens", tokens, sizeof tokens / sizeof *tokens);
        set_texts(h, "tokenizer.ggml.merges", merges, sizeof merges / sizeof *merges);
        set_numbers(h, "tokenizer.ggml.token_type", GGUF_INT32, types, sizeof types / sizeof *types);
        set_numbers(h, "tokenizer.ggml.scores", GGUF_FLOAT32, scores, sizeof scores / sizeof *scores);
        uint8_t value[12 + 4 + sizeof map + 3] = {GGUF_U8};
        uint64_t n_value = sizeof value - 12;
        uint32_t n_map = sizeof map;
        memcpy(value + 4, &n_value, 8), memcpy(value + 12, &n_map, 4), memcpy(value + 16, map, n_map);
        memcpy(value + 16 + n_map, "b ", 3);
        if (!strcmp(kinds[i][0], "t5"))
            gguf_header_set(h, "tokenizer.ggml.precompiled_charsmap", GGUF_ARRAY, value, sizeof value, NULL);
        gguf_header_finish(h, &head, &n, &data, NULL);
        uint8_t front[3] = {3, (uint8_t)n, (uint8_t)(n >> 8)}, *both = malloc(n + sizeof text);
        memcpy(both, head, n), memcpy(both + n, text, sizeof text - 1);
        char name[64];
        snprintf(name, sizeof name, "%s-%s", kinds[i][0], kinds[i][1]);
        fuzz_seed_behind(folder, name, front, sizeof front, both, n + sizeof text - 1);
        free(both);
        gguf_header_free(h);
    }
}
