/* Files by any name that a file system takes, symbolic links, modes: nothing is misread, overwritten or shown
 * raw. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/command.h"

static char *folder, *wanted;
static size_t files; /* in the folder before a test */

static int set_up(void **state) {
    (void)state;
    folder = temporary_folder();
    model *m = model_llama(1);
    model_write(m, in_folder(folder, "in.gguf"));
    model_free(m);
    wanted = strdup(in_folder(folder, "wanted.gguf"));
    quantize(in_folder(folder, "in.gguf"), wanted, "Q8_0", 2);
    assert_int_equal(chdir(folder), 0);
    files = count_files(folder);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    assert_int_equal(chdir("/"), 0);
    remove_folder(folder);
    free(wanted);
    return 0;
}

static void assert_plain(const char *text) {
    for (const char *c = text; *c; c++)
        if (((unsigned char)*c < 32 && *c != '\n') || *c == 127)
            fail_msg("control character %d in: %s", *c, text);
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

static void test_odd_names(void **state) {
    (void)state;
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
        {"a=Q8_0.gguf", "Q4_K_M"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(rename("in.gguf", names[i][0]), 0);
        convert(names[i][0], names[i][1]);
        GQUANT(0, "info", "--", names[i][0]);
        assert_int_equal(rename(names[i][0], "in.gguf"), 0);
    }
    assert_int_equal(count_files(folder), files); /* nothing hidden is left either */
}

static void test_names_that_are_too_long(void **state) {
    (void)state;
    char name[257];
    memset(name, 'n', 256);
    name[256] = 0;
    GQUANT_SAYS(2, "255", "in.gguf", name, "Q8_0");
    GQUANT_SAYS(1, "too long", name, "out.gguf", "Q8_0");
    GQUANT(2, "in.gguf", "", "Q8_0");
    GQUANT(1, "", "out.gguf", "Q8_0");
    assert_int_equal(count_files(folder), files);
}

static void test_links(void **state) {
    (void)state;
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

static void test_mode(void **state) {
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_names_that_are_too_long),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_mode),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
