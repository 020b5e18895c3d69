/* Conversations on the command line: who takes them, what is said where they have to be rendered first, and the
 * tables of an evaluation by kind of text, of prompts and of questions. */
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

static const char CHAT[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n";
static const char QUESTIONS[] =
    "\xef\xbb\xbf"
    "{\"question\": \"abcd\", \"choices\": [\"e\", \"f\"], \"answer\": 1}\n\n"
    "{\"question\": \"bcda\", \"choices\": [\"e\", \"f\", \"g\"], \"answer\": \"B\"}\r\n"
    "{\"question\": \"cdab\", \"choices\": [\"eh\", \"fg\"], \"answer\": \"fg\"}";

FIXTURE(make_files) {
    folder = temporary_folder();
    model_save(evaluation_model(1), path("model-F16.gguf"));
    quantize(path("model-F16.gguf"), path("q2.gguf"), "Q2_K", 1);
    quantize(path("model-F16.gguf"), path("q8.gguf"), "Q8_0", 1);
    char text[300], chats[20000];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)('a' + i * i * 3 % 8);
    write_whole(path("text"), text, sizeof text);
    size_t at = (size_t)snprintf(chats, sizeof chats, "#gquant-chats 1\n# of a test\n");
    for (size_t c = 0; c < 12; c++) {
        at += (size_t)snprintf(chats + at, sizeof chats - at, "=0.5 8 1 2 %zu =1", c % 8);
        for (size_t t = 0; t < 20 + c; t++)
            at += (size_t)snprintf(chats + at, sizeof chats - at, " %zu", (c + 1) * t * t % 8);
        at += (size_t)snprintf(chats + at, sizeof chats - at, "\n");
    }
    write_whole(path("chats.ids"), chats, at);
    write_whole(path("chats.jsonl"), CHAT, sizeof CHAT - 1);
    write_whole(path("questions.jsonl"), QUESTIONS, sizeof QUESTIONS - 1);
    return 0;
}

TEST(what_is_not_rendered_is_refused_with_the_way) {
    const char *line = "chats.ids' does so (pip install './python[chat]'); then give chats.ids";
    GQUANT_SAYS(2, line, "evaluate", path("model-F16.gguf"), "--text", path("chats.jsonl"));
    GQUANT_SAYS(2, line, "evaluate", path("model-F16.gguf"), "--ids", path("chats.jsonl"));
    GQUANT_SAYS(2, line, "--calibrate", path("chats.jsonl"), path("model-F16.gguf"), path("x.gguf"), "Q4_0");
    GQUANT_SAYS(2, line, "imatrix", "compute", path("model-F16.gguf"), path("chats.jsonl"), path("x.gguf"));
    write_whole(path("rows.jsonl"), "{\"text\": \"abcdefgh\"}\n", 21); /* a text as any other */
    GQUANT(0, "evaluate", path("model-F16.gguf"), "--text", path("rows.jsonl"), "--context", "8");
    assert_false(exists(path("x.gguf")));
}

TEST(conversations_go_where_texts_go) {
    static const char *const options[] = {"--ids", "--text"};
    for (size_t i = 0; i < 2; i++) {
        char *out = PRINTED("evaluate", "-t", "1", path("model-F16.gguf"), path("q8.gguf"), options[i],
                            path("chats.ids"), "--context", "64");
        says(out, "354 tokens in windows of 64"), says(out, "342 of them scored"),
            says(out, "12 conversations");
        free(out);
    }
    GQUANT(0, "-q", "--calibrate", path("chats.ids"), "--context", "64", path("model-F16.gguf"),
           path("one.gguf"), "Q4_0");
    GQUANT(0, "-q", "--calibrate-ids", path("chats.ids"), "--context", "64", "-t", "2",
           path("model-F16.gguf"), path("two.gguf"), "Q4_0");
    size_t n, others;
    uint8_t *one = read_whole(path("one.gguf"), &n), *two = read_whole(path("two.gguf"), &others);
    assert_int_equal(n, others);
    assert_memory_equal(one, two, n);
    free(one), free(two);
    GQUANT(0, "-q", "imatrix", "compute", path("model-F16.gguf"), path("chats.ids"), path("a.gguf"),
           "--context", "64");
    GQUANT(0, "-q", "imatrix", "compute", path("model-F16.gguf"), "--ids", path("chats.ids"), path("b.gguf"),
           "--context", "64");
    GQUANT_SAYS(2, "cannot be joined with other texts", "imatrix", "compute", path("model-F16.gguf"),
                path("text"), path("chats.ids"), path("c.gguf"), "--context", "64");
}

/* The same lines with the ends that Windows gives them are the same conversations; another version is none. */
TEST(files_of_other_ends_and_versions) {
    size_t n, m = 0;
    char *chats = (char *)read_whole(path("chats.ids"), &n), *ends = malloc(2 * n);
    for (size_t i = 0; i < n; i++) {
        if (chats[i] == '\n') ends[m++] = '\r';
        ends[m++] = chats[i];
    }
    write_whole(path("crlf.ids"), ends, m);
    chats[14] = '2';
    write_whole(path("next.ids"), chats, n);
    free(chats), free(ends);
    char *out = PRINTED("evaluate", path("model-F16.gguf"), "--ids", path("crlf.ids"), "--context", "64");
    says(out, "342 of them scored"), says(out, "12 conversations");
    free(out);
    GQUANT_SAYS(1, "conversations of version '2', expected '1'", "evaluate", path("model-F16.gguf"), "--ids",
                path("next.ids"), "--context", "64");
}

/* Where no answer changed the interval has a width all the same. */
TEST(nothing_changed_is_not_certain) {
    char *out = PRINTED("evaluate", path("model-F16.gguf"), path("model-F16.gguf"), "--text", path("text"),
                        "--context", "64", "--choices", path("questions.jsonl"), "--json");
    char *more = strstr(out, "\"more\""), *low = more ? strstr(more, "\"low\":") : NULL;
    assert_non_null(low);
    assert_true(strtod(low + strlen("\"low\":"), NULL) < -.1);
    free(out);
}

/* The time is of all that was asked, and so are the tokens that it is divided by: 256 of the text, and two choices of 6
 * tokens with their question, three of 6 and two of 7. */
TEST(rates_are_of_all_tokens_that_run) {
    char *plain = PRINTED("evaluate", path("model-F16.gguf"), "--text", path("text"), "--context", "64"),
         *asked = PRINTED("evaluate", path("model-F16.gguf"), "--text", path("text"), "--context", "64",
                          "--choices", path("questions.jsonl"));
    says(plain, "256 tokens in windows"), says(plain, " tokens/s"), assert_null(strstr(plain, "run in all"));
    says(asked, "256 tokens in windows"), says(asked, " tokens/s"), says(asked, "300 tokens run in all");
    free(plain), free(asked);
    for (int kept = 0; kept < 2; kept++) {
        char *out = PRINTED("evaluate", path("model-F16.gguf"), "--text", path("text"), "--context", "64",
                            "--scores-file", path("kept.scores"));
        assert_int_equal(kept, !strstr(out, "tokens/s"));
        free(out);
    }
}

TEST(sizes_are_chosen_by_weights) {
    size_t n;
    GQUANT(0, "-q", "--calibrate", path("chats.ids"), "--context", "64", "--target-bpw", "4.5", "-n",
           "--report", path("plan.json"), path("model-F16.gguf"), path("target.gguf"));
    char *plan = (char *)read_whole(path("plan.json"), &n);
    says(plan, "\"trial_layers\": 1");
    free(plan);
}

TEST(tables_are_by_kind_prompt_and_question) {
    char *out =
        PRINTED("evaluate", "-t", "1", path("model-F16.gguf"), path("q8.gguf"), "--text", path("text"),
                "--tokens", "96", "--context", "32", "--prompts", "3", "--choices", path("questions.jsonl"));
    says(out, "95 % by windows"), says(out, "changed top-1, %"), says(out, "on this text");
    says(out, "the same 32 tokens"), says(out, "of 3"), says(out, "more than the base model, points");
    free(out);
    out = PRINTED("evaluate", "-t", "1", path("model-F16.gguf"), path("q8.gguf"), "--text", path("text"),
                  "--context", "64", "--tokens", "128", "--kind", path("chats.ids"));
    says(out, "changed top-1, %"), says(out, "chats.ids");
    free(out);
    GQUANT(0, "-q", "evaluate", path("model-F16.gguf"), path("q8.gguf"), "--text", path("text"), "--context",
           "64", "--kind", path("chats.ids"), "--prompts", "3", "--choices", path("questions.jsonl"),
           "--report", path("report.html"));
    size_t n;
    char *page = (char *)read_whole(path("report.html"), &n);
    says(page, "\"kinds\""), says(page, "\"continued\""), says(page, "\"chosen\""),
        says(page, "\"flips_interval\"");
    free(page);
    GQUANT_SAYS(2, "--kind cannot be used with --base", "evaluate", "--base", path("none"), path("q2.gguf"),
                "--kind", path("text"));
}

TEST(questions_have_a_form) {
    static const char *const wrong[][2] = {
        {"{\"question\": \"a\", \"choices\": [\"b\"], \"answer\": 0}", "line 1: expected"},
        {"{\"question\": \"a\", \"choices\": [\"b\", 1], \"answer\": 0}", "line 1: expected"},
        {"{\"question\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 2}",
         "\"answer\" does not name a choice"},
        {"\n{\"question\": ", "line 2: not valid JSON"},
        {"\n\n", "no questions found"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_whole(path("wrong.jsonl"), wrong[i][0], strlen(wrong[i][0]));
        GQUANT_SAYS(1, wrong[i][1], "evaluate", path("model-F16.gguf"), "--text", path("text"), "--choices",
                    path("wrong.jsonl"));
    }
}

TEST(pages_say_what_the_text_was) {
    size_t n;
    GQUANT(0, "-q", "publish", path("model-F16.gguf"), "--out-dir", path("out"), "Q8_0", "--chats",
           path("chats.ids"), "--context", "64");
    char name[1024];
    snprintf(name, sizeof name, "%s/README.md", path("out"));
    char *page = (char *)read_whole(name, &n);
    page = realloc(page, n + 1), page[n] = 0;
    says(page, "The text is 12 conversations"), says(page, "changed top-1 tokens");
    free(page);
}

int main(void) { return tests_run(make_files, folder_remove); }
