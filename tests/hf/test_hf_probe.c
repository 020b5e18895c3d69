/* Names of cuts by what they make of a text: each group's own cuts, other spellings of them, and expressions
 * that would take forever. */
#include <time.h>

#include "forward/tokens/splitter.h"
#include "hf/tokenizer/tokenizer.h"
#include "tests/support/pretokenizer_names.h"
#include "tests/support/support.h"

static bool mark_word(void *user, const char *word, size_t n, gq_error *e) {
    (void)n, (void)e;
    hf_probe_mark(user, (size_t)(word - hf_probe_text));
    return true;
}

TEST(test_text_tells_all_groups_apart) {
    for (size_t i = 0; i < sizeof pretokenizer_names / sizeof *pretokenizer_names; i++) {
        const char *name = pretokenizer_names[i];
        const char *expected = strcmp(name, "bailingmoe") == 0 ? "qwen2" : name;
        hf_probe_cuts cuts = {{0}};
        split_rule rule;
        gq_error e;
        assert_true(pretokenizers_find(name, strlen(name), &rule));
        splitter *s = splitter_new(&rule, &e);
        assert_non_null(s);
        assert_true(
            splitter_run(s, hf_probe_text, hf_probe_text, hf_probe_bytes, NULL, mark_word, &cuts, &e));
        splitter_free(s);
        const char *found = hf_probe_name(&cuts);
        if (!found || strcmp(found, expected) != 0)
            fail_msg("%s is found as %s", name, found ? found : "nothing");
        cuts.bits[40] ^= 2;
        assert_null(hf_probe_name(&cuts));
    }
}

static void assert_name(const char *lines, const char *expected) {
    const char *name;
    gq_error e;
    assert_true(hf_probe_run(lines, &name, &e));
    if (strcmp(name ? name : "nothing", expected ? expected : "nothing") != 0)
        fail_msg("'%s' is found as %s", lines, name ? name : "nothing");
}

#define CONTRACTION "'(?i:[sdmt]|ll|ve|re)"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"

TEST(test_other_spellings) {
    assert_name("S" CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}" OTHERS "\nB0\n", "llama-bpe");
    assert_name("S" CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}" OTHERS "\nB0\n", "qwen2");
    assert_name(
        "S\\p{N}\nS'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+\nB0\n",
        "starcoder");
    assert_name("B1\n", "gpt-2");
    assert_name("D1\nB1\n", "starcoder");
    assert_name("S[\\r\\n]\nS\\s?\\p{L}+\nS\\s?\\p{P}+\nS[一-龥ࠀ-一가-퟿]+\nD1\nB0\n",
                "deepseek-coder");
    assert_name(
        "S\\p{N}{1,3}\nS[一-龥぀-ゟ゠-ヿ]+\n"
        "S[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
        "| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+\nB0\n",
        "deepseek-v3");
}

TEST(test_what_has_no_name) {
    static const char *const cases[] = {"",         "B0\n",          "Sx{7}y\nB0\n", "S(\nB0\n",
                                        "S\nB0\n",  "S(?=a)\nB0\n",  "S\\C\nB0\n",   "Sa\\Kb\n",
                                        "?Split\n", "PContiguous\n", "B1\nD0\n",     "S(?:a{9999}){9999}\n",
                                        "S(?R)?\n", "S(?=ab\\K)\n",  "S\xff\nB0\n",  "B0",
                                        "S(?C1)x\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_name(cases[i], NULL);
}

/* Each of these would run for years without limits. */
TEST(test_expressions_that_never_end) {
    static const char *const cases[] = {"(?:(?:\\p{L}+)+)+!!", "(?:.|\\s|\\n)*?(?:.|\\s)*?(?:.|\\s)*?zzz",
                                        "(?:(.*?)(?1)?){9}~#", "(?s)(?:.*){20}#~#"};
    clock_t begin = clock();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char lines[4000] = "";
        for (size_t step = 0; step < HF_PROBE_STEPS; step++)
            strcat(strcat(strcat(lines, "S"), cases[i]), "\n");
        assert_name(lines, NULL);
    }
    if (!SANITIZED) assert_true(clock() - begin < 20 * CLOCKS_PER_SEC);
    char *lines = malloc(200000); /* many steps, one long expression */
    assert_non_null(lines);
    for (size_t i = 0; i < 1000; i++) memcpy(lines + 3 * i, "Sq\n", 4);
    assert_name(lines, NULL);
    memset(lines, 'a', 199998), memcpy(lines + 199997, "\n", 2);
    lines[0] = 'S';
    assert_name(lines, NULL);
    free(lines);
}

int main(void) { return tests_run(NULL, NULL); }
