/* gquant tokenize: ids one per line, their number, standard input, and what it says when it cannot. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

FIXTURE(set_up) {
    static const char *const tokens[] = {"a", "b", "ab", "<s>", "<|end|>"}, merge[] = "a b";
    folder = temporary_folder();
    uint8_t texts[256] = {GGUF_STRING}, merges[64] = {GGUF_STRING};
    uint64_t n = 5, one = 1, length;
    size_t at = 12;
    memcpy(texts + 4, &n, 8);
    for (size_t k = 0; k < n; k++, at += 8 + length) {
        length = strlen(tokens[k]);
        memcpy(texts + at, &length, 8), memcpy(texts + at + 8, tokens[k], length);
    }
    length = 3;
    memcpy(merges + 4, &one, 8), memcpy(merges + 12, &length, 8), memcpy(merges + 20, merge, 3);
    model *m = model_llama(1);
    model_set_string(m, "tokenizer.ggml.model", "gpt2");
    model_set_string(m, "tokenizer.ggml.pre", "llama-bpe");
    model_set(m, "tokenizer.ggml.tokens", GGUF_ARRAY, texts, at);
    model_set(m, "tokenizer.ggml.merges", GGUF_ARRAY, merges, 23);
    model_set_u32(m, "tokenizer.ggml.bos_token_id", 3);
    model_write(m, path("model.gguf"));
    model_set_string(m, "tokenizer.ggml.model", "rwkv");
    model_save(m, path("other.gguf"));
    write_whole(path("text"), "abba<|end|>a", 12);
    write_whole(path("empty"), "", 0);
    write_whole(path("unknown"), "a zz", 4);
    return 0;
}

static void prints(const char *expected, const char *said, const char *const *words) {
    const char *argv[12] = {NULL, "tokenize"};
    char *out, *err;
    for (size_t n = 2; *words; words++) argv[n++] = *words;
    int status = run_command(argv, &out, &err);
    if (status != 0) fail_msg("status %d: %s", status, err);
    assert_string_equal(out, expected);
    if (*said)
        assert_non_null(strstr(err, said));
    else
        assert_string_equal(err, "");
    free(out), free(err);
}
#define PRINTS(expected, said, ...) prints(expected, said, (const char *const[]){__VA_ARGS__, NULL})

TEST(ids_are_printed_one_per_line) {
    const char *m = path("model.gguf");
    PRINTS("3\n2\n1\n0\n4\n0\n", "", m, path("text"), "--parse-special");
    PRINTS("2\n1\n0\n4\n0\n", "", "--no-bos", "--parse-special", m, path("text"));
    PRINTS("6\n", "", "--count", "--parse-special", m, path("text"));
    PRINTS("3\n", "", m, path("empty"));
    PRINTS("", "", "--no-bos", m, path("empty"));
    PRINTS("3\n0\n", "3 bytes of the text have no token", m, path("unknown"));
    PRINTS("3\n0\n", "", "-q", m, path("unknown"));
}

TEST(standard_input_is_a_text) {
    char line[1024], *out;
    snprintf(line, sizeof line, "printf ab | '%s' tokenize '%s' -", command_path(), path("model.gguf"));
    assert_int_equal(run_command((const char *const[]){"sh", "-c", line, NULL}, &out, NULL), 0);
    assert_string_equal(out, "3\n2\n");
    free(out);
}

TEST(what_cannot_be_done_is_said) {
    GQUANT_SAYS(1, "rwkv", "tokenize", path("other.gguf"), path("text"));
    GQUANT_SAYS(1, "absent", "tokenize", path("model.gguf"), path("absent"));
    GQUANT_SAYS(1, "directory", "tokenize", path("model.gguf"), folder);
    GQUANT_SAYS(2, "MODEL TEXT", "tokenize", path("model.gguf"));
}

int main(void) { return tests_run(set_up, folder_remove); }
