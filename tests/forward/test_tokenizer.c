/* Tokenizing by made-up vocabularies: against the rules carried out one step at a time, on texts without end,
 * and with metadata that cannot be right. */
#include <math.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "forward/tokens/splitter.h"
#include "forward/tokens/tokenizer.h"
#include "tests/support/pretokenizer_names.h"
#include "tests/support/tokenizer_keys.h"

static token_list run(const tokenizer *t, const char *text, size_t n, unsigned flags) {
    token_list ids = {0};
    gq_error e;
    if (!tokenizer_run(t, text, n, flags, &ids, &e)) fail_msg("%s", e.text);
    return ids;
}

/* Ids in a line, "1 2 3". Static buffer. */
static const char *line_of(const tokenizer *t, const char *text, unsigned flags) {
    static char line[4096];
    token_list ids = run(t, text, strlen(text), flags);
    line[0] = 0;
    for (size_t i = 0; i < ids.n; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%u", i ? " " : "", ids.ids[i]);
    free(ids.ids);
    return line;
}

/* ---- one step at a time ---- */

enum { SYMBOLS = 64, TOKENS = 40 };
typedef struct made {
    char texts[TOKENS][16];
    float scores[TOKENS];
    char merges[TOKENS][32];
    size_t n, n_merges;
} made;

static int token_of(const made *m, const char *text, size_t n) {
    for (size_t i = 0; i < m->n; i++)
        if (strlen(m->texts[i]) == n && !memcmp(m->texts[i], text, n)) return (int)i;
    return -1;
}

/* The letters a to d, and random longer texts over them; ties among scores are common. */
static made make_up(void) {
    made m = {.n = 4};
    for (int i = 0; i < 4; i++) m.texts[i][0] = (char)('a' + i);
    while (m.n < TOKENS) {
        char text[16] = "";
        unsigned length = 2 + random_below(4);
        for (unsigned i = 0; i < length; i++) text[i] = (char)('a' + random_below(4));
        if (token_of(&m, text, length) < 0) strcpy(m.texts[m.n++], text);
    }
    for (size_t i = 0; i < m.n; i++) m.scores[i] = -(float)random_below(6);
    for (size_t i = 4; i < m.n; i++) {
        unsigned cut = 1 + random_below((unsigned)strlen(m.texts[i]) - 1);
        snprintf(m.merges[m.n_merges++], sizeof m.merges[0], "%.*s %s", (int)cut, m.texts[i],
                 m.texts[i] + cut);
    }
    return m;
}

/* How early two neighbours, of n and more bytes, join; the lower the earlier, negative: never. */
static double join_rank(const made *m, bool by_rank, const char *text, size_t n, size_t more) {
    if (!by_rank) {
        int id = token_of(m, text, n + more);
        return id < 0 ? -1 : 100 - (double)m->scores[id];
    }
    for (size_t i = 0; i < m->n_merges; i++) {
        const char *line = m->merges[i];
        if (strlen(line) == n + more + 1 && line[n] == ' ' && !memcmp(line, text, n) &&
            !memcmp(line + n + 1, text + n, more))
            return (double)i;
    }
    return -1;
}

/* What the rules say, in the words of the rules: look at all pairs, join the best, begin again. */
static size_t join_slowly(const made *m, bool by_rank, const char *text, uint32_t *ids) {
    size_t ends[SYMBOLS + 1] = {0}, n = strlen(text);
    for (size_t i = 0; i <= n; i++) ends[i] = i;
    for (;;) {
        double best = -1;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            double rank =
                join_rank(m, by_rank, text + ends[i], ends[i + 1] - ends[i], ends[i + 2] - ends[i + 1]);
            if (rank >= 0 && (best < 0 || rank < best)) best = rank, at = i;
        }
        if (best < 0) break;
        memmove(ends + at + 1, ends + at + 2, (n - at - 1) * sizeof *ends);
        n--;
    }
    for (size_t i = 0; i < n; i++) ids[i] = (uint32_t)token_of(m, text + ends[i], ends[i + 1] - ends[i]);
    return n;
}

TEST(joins_are_those_of_the_rules) {
    for (int round = 0; round < 300; round++) {
        bool by_rank = round % 2;
        made m = make_up();
        keys k = {0};
        gq_error e;
        const char *texts[TOKENS], *merges[TOKENS];
        for (size_t i = 0; i < m.n; i++) texts[i] = m.texts[i], merges[i] = m.merges[i];
        add_text(&k, "tokenizer.ggml.model", by_rank ? "gpt2" : "llama");
        add_text(&k, "tokenizer.ggml.pre", "gpt-2");
        add_texts(&k, "tokenizer.ggml.tokens", texts, m.n);
        add_texts(&k, "tokenizer.ggml.merges", merges, m.n_merges);
        add_values(&k, "tokenizer.ggml.scores", GGUF_FLOAT32, m.scores, m.n);
        add_switch(&k, "tokenizer.ggml.add_space_prefix", false);
        tokenizer *t = make(&k, &e);
        if (!t) fail_msg("%s", e.text);
        for (int i = 0; i < 20; i++) {
            char text[SYMBOLS] = "";
            uint32_t expected[SYMBOLS];
            size_t length = random_below(SYMBOLS - 1);
            for (size_t at = 0; at < length; at++) text[at] = (char)('a' + random_below(4));
            size_t n = join_slowly(&m, by_rank, text, expected);
            token_list ids = run(t, text, length, 0);
            assert_int_equal(ids.n, n);
            if (n) assert_memory_equal(ids.ids, expected, n * sizeof *expected);
            free(ids.ids);
        }
        tokenizer_free(t);
        free_keys(&k);
    }
}

/* ---- special tokens ---- */

TEST(special_tokens_are_cut_out_longest_first) {
    static const char *const texts[] = {"a", "b", "\xe2\x96\x81", "<s>", "<|x|>", "|x|>b", "aba", "[EOS]"};
    static const int32_t types[] = {1, 1, 1, 3, 4, 4, 4, 1};
    keys k = {0};
    gq_error e;
    add_text(&k, "tokenizer.ggml.model", "llama");
    add_texts(&k, "tokenizer.ggml.tokens", texts, 8);
    add_values(&k, "tokenizer.ggml.token_type", GGUF_INT32, types, 8);
    add_number(&k, "tokenizer.ggml.bos_token_id", 3);
    add_number(&k, "tokenizer.ggml.eos_token_id", 7);
    tokenizer *t = make(&k, &e);
    if (!t) fail_msg("%s", e.text);
    enum { BOTH = TOKENIZE_ADD_SPECIAL | TOKENIZE_PARSE_SPECIAL };
    assert_string_equal(line_of(t, "", BOTH), "3");
    assert_string_equal(line_of(t, "ab", BOTH), "3 2 0 1");
    assert_string_equal(line_of(t, "ab", 0), "2 0 1");
    /* a prefix again behind a special token; tokens of users are found without being asked for */
    assert_string_equal(line_of(t, "a<|x|>a", 0), "2 0 4 2 0");
    /* as long, with the lower id first, wins even where the other starts earlier or later */
    assert_string_equal(line_of(t, "a<|x|>b", 0), "2 0 4 2 1");
    assert_string_equal(line_of(t, "ababa", 0), "6 2 1 0");
    /* control tokens only on demand, and [EOS] is one, whatever its type says */
    assert_string_equal(line_of(t, "a[EOS]b", TOKENIZE_PARSE_SPECIAL), "2 0 7 2 1");
    token_list ids = {0};
    assert_false(tokenizer_run(t, "a[EOS]b", 7, 0, &ids, &e)); /* no token for [ */
    assert_non_null(strstr(e.text, "5B"));
    free(ids.ids);
    tokenizer_free(t);
    free_keys(&k);
}

/* ---- long texts ---- */

static tokenizer *letters(const char *pre, keys *k) {
    static const char *const texts[] = {"a",        "aa", "1",        "11", "111",
                                        "\xc4\xa0", "b",  "\xc4\x8a", "!",  "\xc2\xb2"};
    static const char *const merges[] = {"a a", "1 1", "1 11"};
    gq_error e;
    *k = (keys){0};
    add_text(k, "tokenizer.ggml.model", "gpt2");
    add_text(k, "tokenizer.ggml.pre", pre);
    add_texts(k, "tokenizer.ggml.tokens", texts, 10);
    add_texts(k, "tokenizer.ggml.merges", merges, 3);
    add_switch(k, "tokenizer.ggml.add_bos_token", false);
    tokenizer *t = make(k, &e);
    if (!t) fail_msg("%s: %s", pre, e.text);
    return t;
}

/* PCRE2 as it is where nobody has built its compiler in (the linker's --wrap). */
static bool without_compiler;
static int leave_out_compiler(void **unused) { return (void)unused, without_compiler = true, 0; }
static int put_compiler_back(void **unused) { return (void)unused, without_compiler = false, 0; }

int __real_pcre2_config_8(uint32_t what, void *to);
int __wrap_pcre2_config_8(uint32_t what, void *to);
int __wrap_pcre2_config_8(uint32_t what, void *to) {
    if (!without_compiler || what != PCRE2_CONFIG_JIT) return __real_pcre2_config_8(what, to);
    return *(uint32_t *)to = 0, 0;
}
int __real_pcre2_jit_compile_8(pcre2_code *code, uint32_t options);
int __wrap_pcre2_jit_compile_8(pcre2_code *code, uint32_t options);
int __wrap_pcre2_jit_compile_8(pcre2_code *code, uint32_t options) {
    return without_compiler ? PCRE2_ERROR_JIT_BADOPTION : __real_pcre2_jit_compile_8(code, options);
}
pcre2_jit_stack *__real_pcre2_jit_stack_create_8(size_t start, size_t most, pcre2_general_context *context);
pcre2_jit_stack *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most, pcre2_general_context *context);
pcre2_jit_stack *__wrap_pcre2_jit_stack_create_8(size_t start, size_t most, pcre2_general_context *context) {
    return without_compiler ? NULL : __real_pcre2_jit_stack_create_8(start, most, context);
}

/* No pattern may need a stack, or time, that grows faster than the text: long runs of the same character. */
TEST(runs_of_one_character_do_no_harm) {
    enum { MOST = 200000 };
    const size_t n = without_compiler && SANITIZED ? MOST / 10 : MOST;
    char *text = malloc(MOST);
    for (size_t p = 0; p < sizeof pretokenizer_names / sizeof *pretokenizer_names; p++) {
        keys k;
        tokenizer *t = letters(pretokenizer_names[p], &k);
        for (const char *c = "a1 \n!"; *c; c++) {
            memset(text, *c, n);
            token_list lengths = {0};
            gq_error e;
            uint64_t sum = 0;
            if (!tokenizer_words(t, text, n, &lengths, &e))
                fail_msg("%s, '%c': %s", pretokenizer_names[p], *c, e.text);
            for (size_t i = 0; i < lengths.n; i++) sum += lengths.ids[i];
            assert_int_equal(sum, n);
            lengths.n = 0;
            if (!tokenizer_run(t, text, n, 0, &lengths, &e))
                fail_msg("%s, '%c': %s", pretokenizer_names[p], *c, e.text);
            free(lengths.ids);
        }
        tokenizer_free(t);
        free_keys(&k);
    }
    free(text);
}

static void assert_words(const char *pre, const char *text, const char *expected) {
    keys k;
    tokenizer *t = letters(pre, &k);
    token_list lengths = {0};
    gq_error e;
    char found[256] = "";
    if (!tokenizer_words(t, text, strlen(text), &lengths, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < lengths.n; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%u", i ? " " : "", lengths.ids[i]);
    assert_string_equal(found, expected);
    free(lengths.ids);
    tokenizer_free(t);
    free_keys(&k);
}

/* Groups of three from the right, which are cut by hand. */
TEST(digits_are_grouped_from_the_right) {
    assert_words("superbpe", "aa1234567a", "2 1 3 3 1");
    assert_words("superbpe", "123456", "3 3");
    assert_words("superbpe",
                 "\xc2\xb2"
                 "123\xc2\xb2",
                 "2 5"); /* digits, but not of the ASCII kind */
    assert_words("superbpe", "a11", "1 2");
    /* the first group keeps the text before it until the next pattern */
    assert_words("tiny_aya", "aa 1234567", "2 1 1 3 3");
    assert_words("tiny_aya", "aa123456", "2 3 3");
    assert_words("afmoe", "a  12345", "1 1 1 2 3");
}

/* ---- metadata that cannot be right ---- */

/* As llama.cpp does with gemma's vocabulary: a run is one token, if there is such a token; else merges make
 * it. */
TEST(runs_of_newlines_are_merged) {
    static const char *const texts[] = {"a", "\n", "\n\n", "\n\n\n", "\n\n\n\n\n"}, *const merges[] = {
                                                                                        "\n \n", "\n\n \n"};
    static const struct {
        const char *text, *ids;
    } cases[] = {{"a\na", "0 1 0"},
                 {"\n\n", "2"},
                 {"a\n\n\n\n", "0 2 2"},
                 {"\n\n\n\n\n", "4"},
                 {"\n\n\n\n\n\n\n", "2 2 3"}};
    keys k = {.n = 0};
    gq_error e;
    add_text(&k, "tokenizer.ggml.model", "gemma4");
    add_texts(&k, "tokenizer.ggml.tokens", texts, 5);
    add_texts(&k, "tokenizer.ggml.merges", merges, 2);
    tokenizer *t = make(&k, &e);
    if (!t) fail_msg("%s", e.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(line_of(t, cases[i].text, 0), cases[i].ids);
    tokenizer_free(t);
    free_keys(&k);
}

static void fails(keys *k, const char *mention) {
    gq_error e = {0};
    tokenizer *t = make(k, &e);
    if (t) fail_msg("accepted, expected: %s", mention);
    if (!strstr(e.text, mention)) fail_msg("'%s' does not mention '%s'", e.text, mention);
    assert_non_null(strstr(e.text, "made.gguf"));
    free_keys(k);
}

/* Words, as llama.cpp cuts them: U+2581 is before what begins one. */
TEST(words_are_cut_into_the_longest_tokens) {
#define W "\xe2\x96\x81"
    static const char *const tokens[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",          W "cafe", W "un",
                                         "able",  "a",     W "!",   W "\xe4\xb8\xad", W "a"};
    static const int32_t types[] = {3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    keys k = {0};
    gq_error e;
    add_text(&k, "tokenizer.ggml.model", "bert");
    add_texts(&k, "tokenizer.ggml.tokens", tokens, sizeof tokens / sizeof *tokens);
    add_values(&k, "tokenizer.ggml.token_type", GGUF_INT32, types, sizeof types / sizeof *types);
    add_number(&k, "tokenizer.ggml.bos_token_id", 2), add_number(&k, "tokenizer.ggml.seperator_token_id", 3);
    add_number(&k, "tokenizer.ggml.unknown_token_id", 1);
    tokenizer *t = make(&k, &e);
    if (!t) fail_msg("%s", e.text);
    uint32_t end;
    assert_true(tokenizer_ends(t, &end) && end == 3);
    assert_string_equal(line_of(t, "CAF\xc3\x89 unable", TOKENIZE_ADD_SPECIAL), "2 4 5 6 3");
    assert_string_equal(line_of(t, "cafe\xcc\x81!unable", 0), "4 8 5 6");
    assert_string_equal(line_of(t,
                                "a\xe4\xb8\xad"
                                "a\tunably  aa",
                                0),
                        "10 9 10 1 10 7");
    assert_string_equal(line_of(t, "", TOKENIZE_ADD_SPECIAL), "2 3");
    tokenizer_free(t);
    free_keys(&k);
#undef W
}

/* A vocabulary of unigrams, one of which users have defined, and one of which is unused. */
static keys unigram_keys(void) {
    static const char *const tokens[] = {"<pad>", "</s>", "<unk>", "\xe2\x96\x81", "a", "b",
                                         "ab",    "(",    "1",     "aab<x>"};
    static const int32_t types[] = {3, 3, 2, 1, 1, 1, 1, 5, 1, 4};
    static const float scores[] = {0, 0, 0, -1, -2, -2, -3, -1, -1, 0};
    keys k = {0};
    add_text(&k, "tokenizer.ggml.model", "t5");
    add_texts(&k, "tokenizer.ggml.tokens", tokens, sizeof tokens / sizeof *tokens);
    add_values(&k, "tokenizer.ggml.token_type", GGUF_INT32, types, sizeof types / sizeof *types);
    add_values(&k, "tokenizer.ggml.scores", GGUF_FLOAT32, scores, sizeof scores / sizeof *scores);
    return k;
}

TEST(unigrams_are_those_of_the_largest_sum) {
    keys k = unigram_keys();
    gq_error e;
    add_map(&k);
    add_switch(&k, "tokenizer.ggml.remove_extra_whitespaces", true);
    tokenizer *t = make(&k, &e);
    if (!t) fail_msg("%s", e.text);
    uint32_t end;
    assert_true(tokenizer_ends(t, &end) && end == 1);
    assert_string_equal(line_of(t, "", TOKENIZE_ADD_SPECIAL), "1");
    assert_string_equal(line_of(t, "  ab  ba ", TOKENIZE_ADD_SPECIAL), "3 6 3 5 4 1");
    /* 'A' is nothing and "A(" is '('; bytes that a token of users begins with stay, and so does "aab" */
    assert_string_equal(line_of(t, "AbA(Aaab", 0), "3 5 7 4 6");
    assert_string_equal(line_of(t, "baab<x>", 0), "3 5 9");
    assert_string_equal(line_of(t, "xy\xff b\xe4\xb8\xad</s>", 0), "3 2 3 5 2");
    assert_string_equal(line_of(t, "b</s>", TOKENIZE_PARSE_SPECIAL), "3 5 1");
    tokenizer_free(t);
    free_keys(&k);
}

TEST(damaged_unigrams_are_named) {
    static const struct {
        uint32_t at, value; /* a number of 4 bytes of the map */
        const char *text, *mention;
    } damages[] = {
        {0, 1 << 20, NULL, "its table has 1048576 bytes"},
        {1, 0x7ffffc00, "b", "leads to unit"},
        {1 + 1024, 100, "A", "a text at byte 100 of 7"},
        {1 + (256 ^ 'A'), 'A' | (256 ^ 'A' ^ 256) << 10, "AAAA", "a key has more than 1024 bytes"}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        keys k = unigram_keys();
        gq_error e = {0};
        token_list ids = {0};
        char text[2000];
        add_map(&k);
        memcpy(k.values[k.n - 1].data + 12 + 4 * (size_t)damages[i].at, &damages[i].value, 4);
        tokenizer *t = make(&k, &e);
        memset(text, damages[i].text ? *damages[i].text : 'b', sizeof text);
        assert_false(t && tokenizer_run(t, text, sizeof text, 0, &ids, &e));
        if ((t != NULL) != (damages[i].text != NULL) || !strstr(e.text, damages[i].mention))
            fail_msg("%zu: %s", i, e.text);
        free(ids.ids);
        tokenizer_free(t), free_keys(&k);
    }
    static const float infinite[] = {0, 0, 0, -1, -2, -2, INFINITY, -1, -1, 0};
    keys k = unigram_keys();
    k.n--, free(k.values[k.n].data), k.values[k.n] = (bytes){0};
    add_values(&k, "tokenizer.ggml.scores", GGUF_FLOAT32, infinite, sizeof infinite / sizeof *infinite);
    fails(&k, "the score of token 6 is not a finite number");
    k = unigram_keys();
    add_number(&k, "tokenizer.ggml.precompiled_charsmap", 1);
    fails(&k, "tokenizer.ggml.precompiled_charsmap is not an array of bytes");
}

TEST(what_is_missing_or_wrong_is_named) {
    static const char *const two[] = {"a", "b"}, *const same[] = {"a", "a"}, *const odd[] = {"a", "b\xff"};
    static const int32_t one_type = 1;
    keys k = {0};
    fails(&k, "tokenizer.ggml.model is missing");
    add_text(&k, "tokenizer.ggml.model", "rwkv");
    fails(&k, "'rwkv'");
    add_number(&k, "tokenizer.ggml.model", 1);
    fails(&k, "tokenizer.ggml.model is missing");
    add_text(&k, "tokenizer.ggml.model", "gpt2"), add_text(&k, "tokenizer.ggml.pre", "whitespace");
    fails(&k, "'whitespace'");
    add_text(&k, "tokenizer.ggml.model", "llama");
    fails(&k, "tokenizer.ggml.tokens is missing");
    add_text(&k, "tokenizer.ggml.model", "gpt2"), add_texts(&k, "tokenizer.ggml.tokens", two, 2);
    fails(&k, "tokenizer.ggml.merges is missing");
    add_text(&k, "tokenizer.ggml.model", "gpt2"), add_texts(&k, "tokenizer.ggml.tokens", odd, 2);
    add_texts(&k, "tokenizer.ggml.merges", odd, 1);
    fails(&k, "token 1 is not UTF-8");
    add_text(&k, "tokenizer.ggml.model", "llama"), add_texts(&k, "tokenizer.ggml.tokens", same, 2);
    fails(&k, "tokens 0 and 1 have the same text 'a'");
    add_text(&k, "tokenizer.ggml.model", "llama"), add_texts(&k, "tokenizer.ggml.tokens", two, 2);
    add_values(&k, "tokenizer.ggml.token_type", GGUF_INT32, &one_type, 1);
    fails(&k, "1 token types for 2 tokens");
    add_text(&k, "tokenizer.ggml.model", "llama"), add_texts(&k, "tokenizer.ggml.tokens", two, 2);
    add_values(&k, "tokenizer.ggml.scores", GGUF_FLOAT32, &one_type, 1);
    fails(&k, "1 scores for 2 tokens");
    add_text(&k, "tokenizer.ggml.model", "llama"), add_texts(&k, "tokenizer.ggml.tokens", two, 2);
    add_values(&k, "tokenizer.ggml.scores", GGUF_INT32, &one_type, 1);
    fails(&k, "tokenizer.ggml.scores is not an array of f32");
}

TEST(odd_numbers_are_warned_about) {
    static const char *const two[] = {"a", "b"};
    keys k = {0};
    gq_error e;
    size_t n;
    add_text(&k, "tokenizer.ggml.model", "gpt2"), add_texts(&k, "tokenizer.ggml.tokens", two, 2);
    add_texts(&k, "tokenizer.ggml.merges", two, 0);
    add_number(&k, "tokenizer.ggml.bos_token_id", 2);
    add_switch(&k, "tokenizer.ggml.add_bos_token", true);
    tokenizer *t = make(&k, &e);
    if (!t) fail_msg("%s", e.text);
    const char *const *warnings = tokenizer_warnings(t, &n);
    assert_int_equal(n, 2);
    assert_non_null(strstr(warnings[0], "tokenizer.ggml.pre"));
    assert_non_null(strstr(warnings[1], "bos_token_id is 2, but there are 2 tokens"));
    token_list ids = {0};
    assert_false(tokenizer_run(t, "a", 1, TOKENIZE_ADD_SPECIAL, &ids, &e));
    assert_non_null(strstr(e.text, "BOS"));
    /* bytes without a token: left out, and counted */
    assert_true(tokenizer_run(t, "a c", 3, 0, &ids, &e));
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.dropped, 2);
    assert_false(tokenizer_run(t, "\xf4\x90\x80\x80", 4, 0, &ids, &e));
    assert_non_null(strstr(e.text, "U+110000"));
    free(ids.ids);
    tokenizer_free(t);
    free_keys(&k);
}

TEST_WITH(runs_without_a_compiler, leave_out_compiler, put_compiler_back) {
    runs_of_one_character_do_no_harm(state);
}

TEST_WITH(digits_without_a_compiler, leave_out_compiler, put_compiler_back) {
    digits_are_grouped_from_the_right(state);
}

int main(void) { return tests_run(NULL, NULL); }
