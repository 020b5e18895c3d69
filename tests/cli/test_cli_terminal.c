/* What a person at a terminal sees: progress, colours, interruption, names that try to write to the terminal.
 */
#include <pty.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "tests/support/command.h"
#include "tests/support/imatrix_files.h"
#include "tests/support/tiny_folder.h"

static char *folder;
static const char *source;

FIXTURE(set_up) {
    folder = model_folder();
    source = strdup(in_folder(folder, "model-F16.gguf"));
    return 0;
}

FIXTURE(tear_down) {
    free((void *)source);
    remove_folder(folder);
    return 0;
}

/* Run with standard error on a terminal; what was written there, malloc'ed. Sends `signal` (0: none) when
 * the first tensor is reported. *status as of waitpid. */
static char *on_terminal(const char *const *words, unsigned short columns, int signal, int *status) {
    int terminal;
    struct winsize size = {.ws_row = 24, .ws_col = columns};
    pid_t pid = forkpty(&terminal, NULL, NULL, &size);
    assert_true(pid >= 0);
    if (pid == 0) {
        char *argv[32] = {command_path()};
        for (size_t i = 0; words[i]; i++) argv[i + 1] = strdup(words[i]);
        setenv("TERM", "xterm", 1);
        execv(command_path(), argv);
        _exit(127);
    }
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = 0;
    for (ssize_t got; n < (1 << 20) - 1 && (got = read(terminal, text + n, (1 << 20) - 1 - n)) > 0;
         n += (size_t)got)
        if (signal && strstr(text, " bpw")) kill(pid, signal), signal = 0;
    waitpid(pid, status, 0);
    close(terminal);
    return text;
}
#define ON_TERMINAL(signal, status, ...) \
    on_terminal((const char *const[]){__VA_ARGS__, NULL}, 60, signal, status)

/* A container may have none. */
static void need_terminal(void) {
    int ends[2];
    if (openpty(&ends[0], &ends[1], NULL, NULL, NULL) == 0) {
        close(ends[0]), close(ends[1]);
        return;
    }
    print_message("skipped: no pseudo-terminals here\n");
    skip();
}

TEST(test_progress_line) {
    need_terminal();
    int status;
    char *text = ON_TERMINAL(0, &status, "--force", source, "Q4_K_M");
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, " %  of "));
    assert_null(strstr(text, "left  "));       /* no room for the tensor's name */
    assert_non_null(strstr(text, "\r\033[K")); /* and it is cleared */
    free(text);
    text = ON_TERMINAL(0, &status, "--force", "--quiet", source, "Q4_K_M");
    assert_string_equal(text, "");
    free(text);
    unlink(in_folder(folder, "model-Q4_K_M.gguf"));
}

/* On a terminal a command ends with the line that usually follows, ready to paste. Tests of output in pipes (printed)
 * see that nothing stands there. */
TEST(test_next_line) {
    need_terminal();
    int status;
    char *text = ON_TERMINAL(0, &status, "plan", "--ram", "16G", source);
    char *expected = text_format("next: gquant %s Q8_0\r\n", source);
    says(text, expected);
    free(text), free(expected);
    text = ON_TERMINAL(0, &status, "--force", source, "Q8_0");
    says(text, "next: gquant text --held-out held-out.txt && gquant evaluate "),
        says(text, " --text held-out.txt\r\n");
    free(text);
    const char *quant = in_folder(folder, "model-Q8_0.gguf");
    text = ON_TERMINAL(0, &status, "compare", source, quant);
    expected = text_format("gquant evaluate %s %s --text held-out.txt\r\n", source, quant);
    says(text, expected);
    free(text), free(expected);
    text = ON_TERMINAL(0, &status, "plan", "--json", source);
    assert_null(strstr(text, "next: "));
    free(text);
    unlink(in_folder(folder, "model-Q8_0.gguf"));
}

/* Tables fit the screen of 60 columns: names lose their middle, notes too long for it get a line of their
 * own. */
TEST(test_narrow_screen) {
    need_terminal();
    static const char *const names[] = {"model.diffusion_model.transformer_blocks.0.attn.to_q.weight",
                                        "b.weight"};
    model *m = model_new("tiny", 1);
    for (uint64_t i = 0; i < 2; i++)
        model_add(m, names[i], GGUF_F32, (uint64_t[4]){i == 1 ? 96 : 256, 4}, NULL);
    const char *in = in_folder(folder, "narrow.gguf");
    model_save(m, in);
    int status;
    char *text = ON_TERMINAL(0, &status, "-v", "--dry-run", in, "Q4_K_M");
    char *printed = strstr(text, "tensor  ");
    assert_non_null(printed);
    char *copy = strdup(printed);
    for (char *rest = copy, *line; (line = strsep(&rest, "\n")) && !strstr(line, "wanted");)
        if (strlen(line) > 61) fail_msg("longer than the screen: %s", line); /* with its CR */
    free(copy);
    assert_null(strstr(printed, names[0]));
    assert_non_null(strstr(printed, "model.dif"));
    assert_non_null(strstr(text, ".to_q.weight  F32 -> Q4_K  4.5"));
    assert_non_null(strstr(text, "\r\n    Q4_K wanted"));
    free(text);
    assert_int_equal(run_command((const char *const[]){NULL, "-nv", in, "Q4_K_M", NULL}, &text, NULL), 0);
    assert_non_null(strstr(text, names[0]));
    free(text);
    unlink(in);
}

/* Every line fits, broken between words, so that a longer one is a single word, but for the one to paste, which
 * must not be broken. Of the progress line and others each state counts. */
static void fits_terminal(unsigned short columns, const char *const *words) {
    int status;
    char *text = on_terminal(words, columns, 0, &status);
    if (status) fail_msg("%s: %s", words[0], text);
    for (char *rest = text, *line; (line = strsep(&rest, "\r\n"));) {
        if (!strncmp(line, "\033[K", 3)) line += 3;
        if (!strncmp(line, "next: ", 6)) continue;
        size_t n = strlen(line);
        if (n > 3 && !strcmp(line + n - 3, "\033[K")) n -= 3;
        bool one_word = strcspn(line + strspn(line, " "), " ") == n - strspn(line, " ");
        if (!one_word && n > columns + (strstr(line, "\033[33m") ? strlen("\033[33m\033[0m") : 0))
            fail_msg("%u columns: %zu: %s", columns, n, line);
    }
    free(text);
}
#define FITS(...) fits_terminal(columns[i], (const char *const[]){__VA_ARGS__, NULL})

/* Help never breaks a word: on any screen it has the words of a wide one, and lines that are too long are
 * single words. */
TEST(test_help_fits_any_screen) {
    need_terminal();
    static const unsigned short columns[] = {20, 40, 80, 200};
    static const char *const verbs[] = {"evaluate", "publish", "types", "plan", "perplexity", NULL};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        for (size_t c = 0; c < sizeof verbs / sizeof *verbs; c++) {
            int status, at = 0;
            const char *const words[] = {verbs[c] ? verbs[c] : "--help", verbs[c] ? "--help" : NULL, NULL};
            char *text = on_terminal(words, columns[i], 0, &status), *wide = NULL, *rest = NULL;
            assert_int_equal(status, 0);
            run_command((const char *const[]){NULL, words[0], words[1], NULL}, &wide, NULL);
            char *copy = strdup(text);
            for (char *all = copy, *line; (line = strsep(&all, "\r\n"));)
                if (strlen(line) > columns[i] && strchr(line + strspn(line, " "), ' '))
                    fail_msg("%u columns: %s", columns[i], line);
            free(copy);
            for (char *word = strtok_r(text, " \r\n", &rest); word; word = strtok_r(NULL, " \r\n", &rest)) {
                at += (int)strspn(wide + at, " \n");
                if (strncmp(wide + at, word, strlen(word)) != 0) fail_msg("%u columns: %s", columns[i], word);
                at += (int)strlen(word);
                assert_true(strchr(" \n", wide[at]));
            }
            free(text), free(wide);
        }
}

TEST(test_every_line_fits) {
    need_terminal();
    static const unsigned short columns[] = {20, 30, 44, 45, 60, 80, 100, 120};
    char *deep = strdup(
        in_folder(folder, "a folder whose name is rather long, and so are the lines about it, all of them"));
    const char *one = in_folder(deep, "model-Q4_K_M.gguf"), *data = in_folder(folder, "imatrix.dat");
    assert_int_equal(mkdir(deep, 0777), 0);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i += SANITIZED ? 3 : 1) {
        FITS("--force", "--imatrix", data, "--out-dir", deep, source, "Q4_K_M", "Q8_0");
        FITS("--force", "-v", "--imatrix", data, source, one, "Q4_K_M");
        FITS("--force", source, one, "Q4_K_M");
        FITS("-n", source, "Q4_K_M");
        FITS("-nv", "--out-dir", deep, source, "Q4_K_M", "Q8_0");
        FITS("compare", "--imatrix", data, source, one);
        FITS("compare", source, one, one);
        FITS("verify", source, one);
        FITS("info", source);
        FITS("plan", "--ram", "1G", source);
        FITS("imatrix", "show", data, source);
        FITS("types");
        FITS("--help");
        FITS("--version", "-v");
    }
    remove_folder(deep);
}

/* The names that a folder has for a tensor go to lines of their own, and long ones lose their middle. */
TEST(test_folders_fit) {
    need_terminal();
    static const unsigned short columns[] = {20, 44, 60, 80, 120};
    const char *from = in_folder(folder, "Folder"), *out = in_folder(folder, "folder.gguf");
    tiny_folder_write(from, 1, 12, 1);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        FITS("--dry-run", from, out, "Q4_K_M");
        FITS("info", from);
    }
    int status;
    char *text = on_terminal((const char *const[]){"info", from, NULL}, 60, 0, &status);
    if (!strstr(text, "..")) fail_msg("no name is shortened: %s", text);
    free(text);
    remove_folder(strdup(from));
}

/* Of many copies as many stand side by side as there is room for, and all are there. */
TEST(test_many_copies_fit) {
    need_terminal();
    static const unsigned short columns[] = {20, 40, 60, 80, 132};
    enum { N = 9 };
    const char *words[N + 3] = {"compare", source}, *piped[N + 4] = {NULL, "compare", source};
    for (size_t k = 0; k < N; k++) {
        char name[32];
        snprintf(name, sizeof name, "copy-%zu.gguf", k);
        words[2 + k] = piped[3 + k] = in_folder(folder, name);
        GQUANT(0, "-q", "--force", source, words[2 + k], k % 2 ? "Q4_0" : "Q8_0");
    }
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        int status;
        fits_terminal(columns[i], words);
        char *text = on_terminal(words, columns[i], 0, &status);
        for (unsigned k = 1; k <= N; k++) {
            char head[16];
            snprintf(head, sizeof head, "file %u", k);
            if (!strstr(text, head)) fail_msg("%u columns: no %s", columns[i], head);
        }
        free(text);
    }
    char *text; /* where no terminal is, all are in one table */
    assert_int_equal(run_command(piped, &text, NULL), 0);
    assert_ptr_equal(strstr(text, "tensor "), text);
    assert_true(strstr(text, "file 9") < strchr(text, '\n'));
    free(text);
    for (size_t k = 0; k < N; k++) unlink(words[2 + k]);
}

/* A row that does not fit the narrowest screens has its name on a line and its cells below, none left out. */
TEST(test_rows_are_stacked) {
    need_terminal();
    int status;
    char *text = on_terminal((const char *const[]){"info", source, NULL}, 30, 0, &status);
    assert_non_null(strstr(text, "\r\ntensor\r\n    type  bpw  MB\r\n"));
    assert_non_null(strstr(text, "\r\nblk.0.attn_q.weight\r\n    F16  16.000  "));
    free(text);
    text = on_terminal((const char *const[]){"-nv", source, "Q4_K_M", NULL}, 20, 0, &status);
    assert_non_null(strstr(text, "\r\nblk.0.att..ut.weight\r\n  F16 -> Q4_K  4.500\r\n"));
    free(text);
}

/* No screen is so narrow that a character of several bytes is cut. */
TEST(test_characters_stay_whole) {
    need_terminal();
    model *m = model_new("tiny", 1);
    model_add(m, "\xe6\xa8\xa1.weight", GGUF_F32, (uint64_t[4]){256, 4}, NULL);
    const char *in = in_folder(folder, "wide.gguf");
    model_save(m, in);
    for (unsigned short columns = 1; columns <= 6; columns++) {
        int status;
        char *text = on_terminal((const char *const[]){"info", in, NULL}, columns, 0, &status);
        assert_int_equal(status, 0);
        for (const char *at = text; (at = strchr(at, 0xe6)); at++)
            if (strncmp(at, "\xe6\xa8\xa1", 3)) fail_msg("%u columns: %s", columns, text);
        free(text);
    }
    unlink(in);
}

TEST(test_progress_names_the_tensor) {
    need_terminal();
    int status;
    const char *out = in_folder(folder, "out.gguf");
    char *text = on_terminal((const char *const[]){"-t", "1", source, out, "Q4_K_M", NULL}, 100, 0, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, " left  output_norm\033[K")); /* output.weight is the first, and is done */
    free(text);
    text = on_terminal((const char *const[]){"compare", source, out, NULL}, 100, 0, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, " left  "));
    free(text);
    unlink(out);
}

TEST(test_no_color) {
    need_terminal();
    int status;
    char *text = ON_TERMINAL(0, &status, in_folder(folder, "absent"), "Q4_K_M");
    assert_non_null(strstr(text, "\033[31m"));
    free(text);
    setenv("NO_COLOR", "1", 1);
    text = ON_TERMINAL(0, &status, in_folder(folder, "absent"), "Q4_K_M");
    unsetenv("NO_COLOR");
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "absent"));
    free(text);
}

/* Where a person reads, and the file is a text model's. */
TEST(test_how_to_run_is_told) {
    need_terminal();
    const char *out = in_folder(folder, "it's.gguf"), *image = in_folder(folder, "image.gguf");
    int status;
    char *text = on_terminal((const char *const[]){source, out, "Q4_K_M", NULL}, 200, 0, &status);
    says(text, "to run it with llama.cpp: llama-cli -m '"), says(text, "it'\\''s.gguf'\r\n");
    free(text);
    text =
        on_terminal((const char *const[]){"--json", "--force", source, out, "Q4_K_M", NULL}, 200, 0, &status);
    assert_null(strstr(text, "llama-cli"));
    free(text);
    model *m = model_new("flux", 1);
    model_add(m, "double_blocks.0.img_attn.qkv.weight", GGUF_F32, (uint64_t[4]){256, 8}, NULL);
    model_save(m, image);
    text = on_terminal((const char *const[]){"--force", image, out, "Q8_0", NULL}, 200, 0, &status);
    assert_int_equal(status, 0);
    assert_null(strstr(text, "llama-cli"));
    free(text);
    char *err = gquant(0, (const char *const[]){"--force", source, out, "Q4_K_M", NULL});
    assert_null(strstr(err, "llama-cli")); /* no terminal */
    free(err);
    unlink(out), unlink(image);
}

/* Stopped behind the first tensor, then run again: as if nothing had happened. */
static void interrupt(int signal) {
    const char *large = in_folder(folder, "large.gguf"), *out = in_folder(folder, "out.gguf");
    const char *whole = in_folder(folder, "whole.gguf");
    int status;
    make_model((const char *const[]){"--weights", "20000000", large, NULL}); /* a second's work */
    char *text =
        ON_TERMINAL(signal, &status, "--verbose", "-t", "1", "--effort", "best", large, out, "Q4_K_M");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 128 + signal)
        fail_msg("status %x: %s", (unsigned)status, text);
    assert_false(exists(out));
    assert_non_null(strstr(text, "stopped"));
    free(text);
    GQUANT(0, "-q", "--effort", "best", large, out, "Q4_K_M");
    GQUANT(0, "-q", "--effort", "best", large, whole, "Q4_K_M");
    assert_same_file(out, whole);
    unlink(out), unlink(whole), unlink(large);
    assert_int_equal(count_files(folder), 2);
}

TEST(test_sigint) {
    need_terminal();
    interrupt(SIGINT);
}

TEST(test_sigterm) {
    need_terminal();
    interrupt(SIGTERM);
}

TEST(test_sighup) {
    need_terminal();
    interrupt(SIGHUP);
}

TEST(test_reader_goes_away) {
    const char *out = in_folder(folder, "out.gguf");
    char *script;
    assert_true(asprintf(&script, "%s -q %s %s Q8_0 | true; test -e %s", command_path(), source, out, out) >
                0);
    assert_int_equal(run_command((const char *const[]){"sh", "-c", script, NULL}, NULL, NULL), 0);
    free(script);
    unlink(out);
}

static const char *const hostile[] = {"\033[2J\033]0;owned\a.weight", "two\nlines\r<script>\"',=.weight",
                                      "not utf-8 \xff\xc0.weight", "=\xc2\x9b[2J\xe2\x80\xaethgiew.weight"};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

/* A model and a matrix whose names and texts write to the terminal. */
static void make_hostile(const char *path, const char *matrix_path) {
    static const float ones[1024] = {1};
    model *m = model_new("tiny", 1);
    blob b = {0};
    put32(&b, HOSTILE);
    for (uint64_t i = 0; i < HOSTILE; i++) {
        model_add(m, hostile[i], GGUF_F32, (uint64_t[4]){i == 1 ? 96 : 256, 4}, NULL);
        model_set_string(m, hostile[i], hostile[HOSTILE - 1 - i]);
        put_entry(&b, hostile[i], 1, ones, i == 2 ? 100 : i == 1 ? 96 : 256);
    }
    put_trailer(&b, 1, hostile[0]);
    put(&b, "more", 4); /* worth a warning */
    model_save(m, path);
    write_whole(matrix_path, b.bytes, b.n);
    free(b.bytes);
}

/* Whatever the command says of them. */
static void plainly(int status, const char *const *words) {
    char *text, *err;
    int found = run_command(words, &text, &err);
    if (found != status) fail_msg("%s %s: exit status %d: %s", words[1], words[2], found, err);
    if (!*text && !*err) fail_msg("%s %s: says nothing", words[1], words[2]);
    assert_plain(text), assert_plain(err);
    free(text), free(err);
}
#define PLAINLY(status, ...) plainly(status, (const char *const[]){NULL, __VA_ARGS__, NULL})

TEST(test_hostile_names) {
    char *odd = strdup(in_folder(folder, "odd.gguf")), *out = strdup(in_folder(folder, "out.gguf")),
         *data = strdup(in_folder(folder, "odd.dat")), *saved = strdup(in_folder(folder, "r.json"));
    const char *bad = in_folder(folder, "bad.gguf"), *copy = in_folder(folder, "copy.gguf"),
               *recipe = in_folder(folder, "recipe");
    make_hostile(odd, data);
    PLAINLY(0, "-v", "-r", saved, odd, out, "Q4_K_M");
    PLAINLY(0, "-n", "--force", odd, out, "Q4_K_M");
    PLAINLY(1, "-n", "--strict", odd, "Q4_K_M");
    PLAINLY(1, "-n", "--imatrix", data, odd, "Q4_K_M");
    PLAINLY(1, out, copy, "Q5_K_M"); /* quantized already */
    PLAINLY(0, "plan", odd);
    PLAINLY(0, "info", odd);
    PLAINLY(0, "info", "--json", odd);
    PLAINLY(0, "verify", "-r", saved, out); /* names are those of the file, whatever is in them */
    PLAINLY(1, "verify", "-r", saved, source);
    PLAINLY(1, "verify", "-r", saved, odd);
    PLAINLY(0, "compare", odd, out);
    PLAINLY(1, "compare", odd, source);
    PLAINLY(0, "imatrix", "show", data, odd);
    PLAINLY(0, "imatrix", "show", "--json", data, odd);
    PLAINLY(0, "imatrix", "show", in_folder(folder, "imatrix.dat"), odd);
    PLAINLY(1, "imatrix", "show", odd);
    size_t n;
    uint8_t *bytes = read_whole(odd, &n);
    memset(bytes + n - 64, 0xff, 64); /* NaN in the last tensor */
    write_whole(bad, bytes, n);
    free(bytes);
    PLAINLY(1, bad, copy, "Q8_0");
    PLAINLY(1, "verify", bad);
    PLAINLY(1, "compare", bad, odd);
    write_whole(recipe, hostile[0], strlen(hostile[0]));
    PLAINLY(2, "--tensor-type-file", recipe, "-n", odd, "Q8_0");
    PLAINLY(2, "--tensor-type", hostile[3], "-n", odd, "Q8_0");
    PLAINLY(2, hostile[0], hostile[3]);
    PLAINLY(1, hostile[0], "Q8_0");
    unlink(bad), unlink(recipe);

    json *r = json_file(saved);
    assert_non_null(report_tensor(r, hostile[1]));
    assert_non_null(report_tensor(r, "not utf-8 \xee\xbf\xbf\xee\xbf\x80.weight"));
    assert_non_null(report_tensor(r, hostile[3]));
    json_free(r);
    char *text = (char *)read_whole(saved, NULL);
    assert_null(strchr(text, '<')); /* so that a page can hold it */
    free(text);
    unlink(odd), unlink(out), unlink(data), unlink(saved);
    free(odd), free(out), free(data), free(saved);
    assert_int_equal(count_files(folder), 2);
}

/* A spreadsheet must not take a name for a formula. */
TEST(test_hostile_table) {
    const char *odd = in_folder(folder, "odd.gguf"), *data = in_folder(folder, "odd.dat"),
               *saved = in_folder(folder, "r.csv");
    make_hostile(odd, data);
    GQUANT(0, "-q", "-n", "-r", saved, odd, "Q8_0");
    char *text = (char *)read_whole(saved, NULL);
    assert_null(strstr(text, ",\"="));
    assert_non_null(strstr(text, ",\"'=\xc2"));
    free(text);
    unlink(odd), unlink(data), unlink(saved);
}

int main(void) { return tests_run(set_up, tear_down); }
