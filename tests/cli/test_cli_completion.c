/* The help, the man page and the completion scripts know the options that the parser knows. */
#include "tests/support/support.h"

#include <ctype.h>

#include "cli/cli.h"
#include "cli/options/options.h"

static char *command_text(const char *a, const char *b) {
    char *out;
    assert_int_equal(run_command((const char *const[]){NULL, a, b, NULL}, &out, NULL), 0);
    return out;
}

static bool holds_option(const char *text, const char *prefix, const char *name) {
    char *word = text_format("%s%s", prefix, name);
    bool found = false;
    for (const char *at = text; !found && (at = strstr(at, word)); at++) {
        char after = at[strlen(word)];
        found = !isalnum((unsigned char)after) && after != '-' && after != '\\';
    }
    free(word);
    return found;
}

/* roff writes a dash that may be copied as \- */
static char *without_backslashes(char *text) {
    char *to = text;
    for (char *from = text; *from; from++)
        if (*from != '\\') *to++ = *from;
    *to = 0;
    return text;
}

TEST(test_options_everywhere) {
    char *man = without_backslashes((char *)read_whole(test_path("../docs/gquant.1"), NULL));
    char *help = command_text("help", "all"), *bash = command_text("completion", "bash");
    char *zsh = command_text("completion", "zsh"), *fish = command_text("completion", "fish");
    for (size_t i = 0; i < n_options; i++) {
        const option_row *o = &options[i];
        if (!o->name) continue;
        if (!holds_option(man, "--", o->name)) fail_msg("the man page lacks --%s", o->name);
        if (!o->help || !(o->commands & CMD_QUANTIZE)) continue;
        if (!holds_option(help, "--", o->name)) fail_msg("help all lacks --%s", o->name);
        if (!holds_option(bash, "--", o->name)) fail_msg("completion for bash lacks --%s", o->name);
        if (!holds_option(zsh, "--", o->name)) fail_msg("completion for zsh lacks --%s", o->name);
        if (!holds_option(fish, "-l ", o->name)) fail_msg("completion for fish lacks --%s", o->name);
    }
    for (const char *at = man; (at = strstr(at, "--")); at += 2) {
        size_t n = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        bool known = n == 0; /* "--" alone ends the options */
        for (size_t i = 0; i < n_options; i++)
            known |= options[i].name && strlen(options[i].name) == n && !strncmp(options[i].name, at + 2, n);
        if (!known) fail_msg("the man page has --%.*s, which is no option", (int)n, at + 2);
    }
    free(man), free(help), free(bash), free(zsh), free(fish);
}

/* The option's paragraph of the man page, or its part of the help: up to where the next one begins. */
static char *option_paragraph(const char *text, const char *start, const char *name) {
    for (const char *at = text; (at = strstr(at, start)); at++) {
        size_t n = strcspn(at + 1, "\n") + 1, head = n + 1 + strcspn(at + n + 1, "\n");
        char *line = text_format("%.*s", (int)(start[1] == '.' ? head : n), at);
        bool found = holds_option(line, "--", name);
        free(line);
        const char *end = strstr(at + 1, start);
        if (found) return text_format("%.*s", end ? (int)(end - at) : (int)strlen(at), at);
    }
    fail_msg("there is no paragraph of --%s", name);
    return NULL;
}

/* Which words an option takes is known by asking what takes them; the man page and the help name these and no others. */
TEST(words_of_options_are_those_that_are_taken) {
    static const char *const formats[] = {".json", ".csv",  ".html", ".md",  ".svg", ".txt",
                                          ".pdf",  ".yaml", ".tsv",  ".xml", ".png", ".jsonl"};
    char *text = (char *)read_whole(test_path("../docs/gquant.1"), NULL), *help = command_text("help", "all");
    without_backslashes(text);
    char *man = option_paragraph(text, "\n.TP", "report"), *row = option_paragraph(help, "\n ", "report");
    char *page = (char *)read_whole(test_path("../docs/reports.md"), NULL);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        char *file = text_format("report%s", formats[i]);
        bool taken = gq_report_format_of(file) >= 0;
        const char *const places[] = {man, row, page};
        for (size_t k = 0; k < (taken ? 3 : 2); k++)
            if (taken != !!strstr(places[k], formats[i])) fail_msg("%s: %s", formats[i], places[k]);
        free(file);
    }
    free(man), free(row), free(page);
    man = option_paragraph(text, "\n.TP", "effort"), row = option_paragraph(help, "\n ", "effort");
    for (size_t i = 0; effort_names[i]; i++)
        if (!strstr(man, effort_names[i]) || !strstr(row, effort_names[i]))
            fail_msg("%s: %s", effort_names[i], man);
    free(man), free(row);
    man = option_paragraph(text, "\n.TP", "mmproj");
    for (size_t i = 0; mmproj_types[i]; i++)
        if (!strstr(man, mmproj_types[i])) fail_msg("%s: %s", mmproj_types[i], man);
    free(man), free(text), free(help);
}

static bool holds_word(const char *text, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; text[i]; i++)
        if (!strncmp(text + i, word, n) && (i == 0 || strchr(" '(\n", text[i - 1])) &&
            strchr(" ')\n", text[i + n]))
            return true;
    return false;
}

TEST(test_types_in_completion) {
    char *bash = command_text("completion", "bash"), *types = command_text("types", NULL);
    for (size_t i = 0; i < gq_filetype_count(); i++) {
        assert_true(holds_word(types, gq_filetype_name(i)));
        assert_true(holds_word(bash, gq_filetype_name(i)));
    }
    assert_null(strchr(types, '*'));
    free(bash), free(types);
}

TEST(test_help_fits_a_screen) {
    static const char *const asked[][2] = {
        {"-h", NULL}, {"help", "all"}, {"help", "evaluate"}, {"help", "publish"}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        char *help = command_text(asked[i][0], asked[i][1]);
        size_t lines = 0;
        for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n"), lines++)
            if (strlen(line) > 80) fail_msg("wider than 80 columns: %s", line);
        if (i == 0) assert_in_range(lines, 20, 40);
        free(help);
    }
}

TEST(test_shells_read_their_scripts) {
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t i = 0; i < 3; i++) {
        char *script = text_format("command -v %s >/dev/null || exit 0; %s completion %s | %s -n", shells[i],
                                   command_path(), shells[i], shells[i]);
        char *err;
        assert_int_equal(run_command((const char *const[]){"sh", "-c", script, NULL}, NULL, &err), 0);
        assert_string_equal(err, "");
        free(script), free(err);
    }
}

TEST(test_bash_completes) {
    static const struct {
        const char *words, *expected;
        int at;
    } rows[] = {{"gquant --imatrix-p", "--imatrix-path", 1},
                {"gquant in --effort b", "best", 3},
                {"gquant in iq4_x", "IQ4_XS", 2},
                {"gquant --output-tensor-type Q6", "Q6_K", 2},
                {"gquant ty", "types", 1},
                {"gquant imatrix sh", "show", 2},
                {"gquant imatrix /", "nothing: ", 2}, /* no file is among its first words */
                {"gquant imatrix show /", "/", 3},
                {"gquant compl", "completion", 1},
                {"gquant compare --im", "--imatrix ", 2},
                {"gquant --effort = b in", "best", 3},
                {"gquant --output-tensor-type = q6", "Q6_K", 3},
                {"gquant info Q4", "nothing: ", 2},
                {"gquant info --dry", "nothing: ", 2},
                {"gquant -q ver", "verify", 2},
                {"gquant -t 1 -q imatrix sh", "show", 5},
                {"gquant --imatrix = x compare --imatrix-", "nothing: ", 5},
                {"gquant --imatrix x in iq4_x", "IQ4_XS", 4},
                {"gquant completion z", "zsh", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *script = text_format("eval \"$(%s completion bash)\"; COMP_WORDS=(%s); COMP_CWORD=%d; _gquant; "
                                   "printf '%%s ' \"${COMPREPLY[@]-nothing:}\"",
                                   command_path(), rows[i].words, rows[i].at);
        char *out;
        int status = run_command((const char *const[]){"bash", "-c", script, NULL}, &out, NULL);
        if (status == 127) print_message("skipped: no bash\n"), skip();
        if (!strstr(out, rows[i].expected)) fail_msg("%s: found \"%s\"", rows[i].words, out);
        free(script), free(out);
    }
}

int main(void) { return tests_run(NULL, NULL); }
