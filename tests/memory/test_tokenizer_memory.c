/* Memory that runs out at any allocation of a tokenizer: a clear error each time, and nothing is lost. */
#include "tests/memory/memory.h"
#include "tests/support/folder.h"
#include "tests/support/model.h"

/* A vocabulary of each kind: by score, by rank on bytes, by rank on characters, of unigrams. */
static const char *const kinds[] = {"llama", "gpt2", "gemma4", "t5"};
enum { KINDS = sizeof kinds / sizeof *kinds };

FIXTURE(set_up) {
    folder = temporary_folder();
    static const char *const tokens[] = {"a", "b", "ab", "<s>", "\xc4\xa0", "\xe2\x96\x81", ""},
                             merges[] = "a b";
    for (size_t i = 0; i < KINDS; i++) {
        uint8_t texts[256] = {GGUF_STRING}, line[64] = {GGUF_STRING};
        uint64_t n = 7, one = 1, length = 3;
        size_t at = 12;
        memcpy(texts + 4, &n, 8);
        for (size_t k = 0; k < n; k++, at += 8 + length) {
            length = strlen(tokens[k]);
            memcpy(texts + at, &length, 8), memcpy(texts + at + 8, tokens[k], length);
        }
        length = 3;
        memcpy(line + 4, &one, 8), memcpy(line + 12, &length, 8), memcpy(line + 20, merges, 3);
        model *m = model_new("llama", 1);
        model_set_string(m, "tokenizer.ggml.model", kinds[i]);
        model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, at);
        model_set(m, "tokenizer.ggml.merges", GGUF_ARRAY, line, 23);
        model_set_array(m, "tokenizer.ggml.token_type", GGUF_INT32, (int32_t[]){1, 1, 1, 4, 1, 1, 1}, 7);
        model_set_u32(m, "tokenizer.ggml.bos_token_id", 3);
        model_add(m, "output.weight", GGUF_F32, (uint64_t[4]){32, 2}, NULL);
        model_save(m, in_folder(folder, kinds[i]));
    }
    return 0;
}

/* With a surrogate, for which a copy of the text is made. */
static bool try_kind(const char *kind, gq_error *e) {
    static const char text[] = "ab ab<s>\xed\xa0\x80"
                               "ba";
    gq_tokens tokens = {0};
    gq_tokenizer *t = gq_tokenizer_open(in_folder(folder, kind), e);
    bool ok = t && gq_tokenize(t, text, !strcmp(kind, "llama") ? 8 : strlen(text), NULL, &tokens, e);
    gq_tokens_free(&tokens);
    gq_tokenizer_close(t);
    return ok;
}

TEST(every_allocation_may_fail) {
    for (size_t i = 0; i < KINDS; i++) {
        gq_error e;
        long n = 1;
        for (bool ok = false; !ok; n++) {
            e = (gq_error){0};
            fail_at = n;
            ok = try_kind(kinds[i], &e);
            bool reached = fail_at == 0;
            fail_at = 0;
            if (ok && !reached) break;
            if (ok) {
                ok = false; /* done without, as compiled patterns can be */
                continue;
            }
            if (!strstr(e.text, "memory")) fail_msg("%s, allocation %ld: %s", kinds[i], n, e.text);
        }
        assert_true(n > 12);
    }
}

int main(void) { return tests_run(set_up, folder_remove); }
