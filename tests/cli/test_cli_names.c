/* Files by any name that a file system takes, symbolic links, modes: nothing is misread, overwritten or shown
 * raw. */
#include <sys/stat.h>

#include "tests/support/command.h"

static char *folder, *wanted;
static size_t files; /* in the folder before a test */

FIXTURE(set_up) {
    folder = temporary_folder();
    make_model((const char *const[]){"--weights", "300000", "--imatrix", in_folder(folder, "imatrix.dat"),
                                     in_folder(folder, "in.gguf"), NULL});
    wanted = strdup(in_folder(folder, "wanted.gguf"));
    quantize(in_folder(folder, "in.gguf"), wanted, "Q8_0", 2);
    assert_int_equal(chdir(folder), 0);
    files = count_files(folder);
    return 0;
}

FIXTURE(tear_down) {
    assert_int_equal(chdir("/"), 0);
    remove_folder(folder);
    free(wanted);
    return 0;
}

/* Quantize from and to names; what is printed is fit for a terminal. */
static void convert(const char *in, const char *out) {
    char *text, *err;
    int status = run_command((const char *const[]){NULL, "-v", "--", in, out, "Q8_0", NULL}, &text, &err);
    if (status) fail_msg("%s -> %s: %s", in, out, err);
    assert_plain(text), assert_plain(err);
    free(text), free(err);
    assert_same_file(wanted, out);
    assert_int_equal(unlink(out), 0);
}

/* Run it with odd names among the words; what is printed is fit for a terminal. */
static void assert_fit(const char *const *words) {
    char *text, *err;
    int status = run_command(words, &text, &err);
    if (status) fail_msg("%s %s: %s", words[1], words[2], err);
    assert_plain(text), assert_plain(err);
    free(text), free(err);
}
#define FIT(...) assert_fit((const char *const[]){NULL, __VA_ARGS__, NULL})

/* Every command reads the model and the matrix of these names, and writes to `out`. */
static void try_commands(const char *in, const char *matrix, const char *out) {
    static const char outputs[] = "a folder\n";
    char *with_matrix, *with_report;
    FIT("info", "--", in);
    FIT("info", "--json", "--", in);
    FIT("plan", "--", in);
    FIT("verify", "--", in);
    FIT("compare", "--", in, in);
    FIT("imatrix", "show", "--", matrix, in);
    FIT("imatrix", "show", "--json", "--", matrix, in);
    FIT("imatrix", "convert", "--", matrix, out);
    assert_int_equal(unlink(out), 0);
    FIT("imatrix", "merge", "--", matrix, matrix, out);
    assert_int_equal(unlink(out), 0);
    assert_true(asprintf(&with_matrix, "--imatrix=%s", matrix) > 0);
    assert_true(asprintf(&with_report, "--report=%.250s.json", out) > 0);
    FIT(with_matrix, with_report, "-v", "--", in, out, "Q4_0");
    FIT("verify", with_report, "--", out);
    FIT("compare", "--", in, out);
    assert_int_equal(unlink(strchr(with_report, '=') + 1) | unlink(out), 0);
    assert_int_equal(mkdir(outputs, 0777), 0);
    FIT("--out-dir", outputs, "--", in, "x\\b=Q4_0", "-y=Q8_0");
    remove_folder(strdup(outputs));
    free(with_matrix), free(with_report);
}

TEST(test_odd_names) {
    char longest[256], longest_out[256];
    memset(longest, 'a', 255), memset(longest_out, 'b', 255);
    longest[255] = longest_out[255] = 0;
    memcpy(longest + 250, ".gguf", 5);
    memcpy(longest_out, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
           9); /* sequences that a shortened name may not split */
    const char *const names[][2] = {
        {"with space.gguf", "two  spaces "},
        {"line\nbreak\r.gguf", "out\nput\033[2J\a"},
        {"-n.gguf", "--help"},
        {"not utf-8 \xff\xfe.gguf", "\x80\x9b"},
        {"quote'\"$(touch x)`.gguf", "%s%n%d*?[a]{b}\\"},
        {longest, longest_out},
        {"a=Q8_0.gguf", "./Q4_K_M"},
    };
    enum { NAMES = sizeof names / sizeof *names };
    for (size_t i = 0; i < NAMES; i++) {
        assert_int_equal(rename("in.gguf", names[i][0]), 0);
        convert(names[i][0], names[i][1]);
        assert_int_equal(rename("imatrix.dat", names[i][1]), 0);
        try_commands(names[i][0], names[i][1], names[(i + 1) % NAMES][1]);
        assert_int_equal(rename(names[i][0], "in.gguf"), 0);
        assert_int_equal(rename(names[i][1], "imatrix.dat"), 0);
    }
    assert_int_equal(count_files(folder), files); /* nothing hidden is left either */
}

TEST(test_names_that_are_too_long) {
    char name[257];
    memset(name, 'n', 256);
    name[256] = 0;
    GQUANT_SAYS(2, "255", "in.gguf", name, "Q8_0");
    GQUANT_SAYS(1, "too long", name, "out.gguf", "Q8_0");
    GQUANT(2, "in.gguf", "", "Q8_0");
    GQUANT(1, "", "out.gguf", "Q8_0");
    assert_int_equal(count_files(folder), files);
}

/* A model that is not there: its shards are, or it is a hub's. */
TEST(test_names_of_what_was_meant) {
    static const char gone[] = "No such file or directory";
    GQUANT(0, "-q", "--split-max-size", "200K", "in.gguf", "sp.gguf", "Q8_0");
    GQUANT_SAYS(1, "it was written in shards: name the first one, sp-00001-of-0000", "verify", "sp.gguf");
    GQUANT_SAYS(1, "name the first one, ./sp-00001-of-0000", "info", "./sp.gguf");
    GQUANT_SAYS(1, "downloaded first: hf download Qwen/Qwen3-8B --local-dir Qwen3-8B\n", "plan",
                "Qwen/Qwen3-8B");
    GQUANT_SAYS(1, "downloaded first: hf download Qwen/Qwen3-8B --local-dir Qwen3-8B/\n", "Qwen/Qwen3-8B/",
                "Q4_K_M");
    static const char *const others[] = {"absent",         "absent.gguf", "Qwen/absent.gguf",
                                         "./absent/model", "a/b/c",       "/a/b"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *err = gquant(1, (const char *const[]){"info", others[i], NULL});
        says(err, gone);
        if (strcmp(strstr(err, gone) + strlen(gone), "\n") != 0) fail_msg("%s", err);
        free(err);
    }
    for (int k = 1; k <= 9; k++) /* as many as there are */
        for (int n = 1; n <= 9; n++) {
            char name[32];
            snprintf(name, sizeof name, "sp-%05d-of-%05d.gguf", k, n);
            unlink(name);
        }
}

TEST(test_links) {
    struct stat st;
    /* Reading goes through links. */
    assert_int_equal(symlink("in.gguf", "link.gguf"), 0);
    convert("link.gguf", "out.gguf");
    /* Writing replaces a link, and leaves alone what it points to. */
    write_whole("precious", "data", 4);
    assert_int_equal(symlink("precious", "out.gguf"), 0);
    GQUANT_SAYS(1, "--force", "in.gguf", "out.gguf", "Q8_0");
    GQUANT(0, "--force", "-q", "in.gguf", "out.gguf", "Q8_0");
    assert_same_file(wanted, "out.gguf");
    assert_int_equal(lstat("out.gguf", &st), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(stat("precious", &st), 0);
    assert_int_equal(st.st_size, 4);
    unlink("out.gguf"), unlink("precious");
    /* Nor does a link that points nowhere, or in a circle, become a file elsewhere. */
    assert_int_equal(symlink("nowhere", "out.gguf"), 0);
    GQUANT(1, "in.gguf", "out.gguf", "Q8_0");
    assert_false(exists("nowhere"));
    assert_int_equal(symlink("circle", "circle"), 0);
    GQUANT(1, "circle", "other.gguf", "Q8_0");
    unlink("out.gguf"), unlink("circle");
    /* The input by another name is still the input. */
    GQUANT_SAYS(1, "input", "--force", "in.gguf", "link.gguf", "Q8_0");
    unlink("link.gguf");
    assert_int_equal(link("in.gguf", "hard.gguf"), 0);
    GQUANT_SAYS(1, "input", "--force", "in.gguf", "hard.gguf", "Q8_0");
    unlink("hard.gguf");
    assert_int_equal(count_files(folder), files);
}

TEST(test_mode) {
    static const mode_t masks[] = {022, 077, 0};
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        mode_t old = umask(masks[i]);
        GQUANT(0, "-q", "in.gguf", "out.gguf", "Q8_0");
        umask(old);
        assert_int_equal(stat("out.gguf", &st), 0);
        assert_int_equal(st.st_mode & 07777, 0666 & ~masks[i]);
        unlink("out.gguf");
    }
}

enum { WORDS = 8 };

/* "@" among the words is `path`, which the command must refuse at once, by its kind. */
static void refused(const char *path, const char *kind, const char *const runs[][WORDS], size_t n) {
    for (size_t i = 0; i < n; i++) {
        const char *words[WORDS + 3] = {"timeout", "60", command_path()};
        char *err;
        for (size_t k = 0; runs[i][k]; k++) words[k + 3] = *runs[i][k] == '@' ? path : runs[i][k];
        int status = run_command(words, NULL, &err);
        if (status != 1 || !strstr(err, kind))
            fail_msg("%s, run %zu with %s: exit status %d: %s", words[3], i, kind, status, err);
        free(err);
    }
}

TEST(test_other_kinds) {
    static const char *const reading[][WORDS] = {
        {"@", "out", "Q8_0"},
        {"in.gguf", "out", "Q8_0", "--imatrix", "@"},
        {"in.gguf", "out", "Q8_0", "--tensor-type-file", "@"},
        {"info", "@"},
        {"plan", "@"},
        {"verify", "@"},
        {"verify", "in.gguf", "--report", "@"},
        {"compare", "@", "in.gguf"},
        {"compare", "in.gguf", "@"},
        {"compare", "--imatrix", "@", "in.gguf", "in.gguf"},
        {"imatrix", "show", "@"},
        {"imatrix", "show", "imatrix.dat", "@"},
        {"imatrix", "convert", "@", "out"},
        {"imatrix", "merge", "imatrix.dat", "@", "out"},
    };
    static const char *const writing[][WORDS] = {
        {"in.gguf", "@", "Q8_0", "--force"},
        {"in.gguf", "@", "Q8_0", "--force", "--part", "1/2"},
        {"in.gguf", "out", "Q8_0", "--report", "@"},
        {"in.gguf", "Q8_0", "--dry-run", "--report", "@"},
        {"compare", "in.gguf", "in.gguf", "--report", "@"},
        {"imatrix", "convert", "--force", "imatrix.dat", "@"},
        {"imatrix", "merge", "--force", "imatrix.dat", "imatrix.dat", "@"},
    };
    enum { READING = sizeof reading / sizeof *reading, WRITING = sizeof writing / sizeof *writing };
    struct stat st;
    assert_int_equal(mkfifo("fifo.json", 0666) | mkdir("folder.json", 0777), 0);
    refused("/dev/zero", "a device", reading, READING);
    refused("folder.json", "a directory", reading, READING);
    refused("folder.json", "a directory", writing, WRITING);
    refused("fifo.json", "a FIFO", reading, READING);
    refused("fifo.json", "a FIFO", writing, WRITING);
    assert_true(stat("fifo.json", &st) == 0 && S_ISFIFO(st.st_mode));
    assert_int_equal(unlink("fifo.json") | rmdir("folder.json"), 0);
    assert_int_equal(count_files(folder), files);
}

int main(void) { return tests_run(set_up, tear_down); }
