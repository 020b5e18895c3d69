#include "tests/support/support.h"

#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <poll.h>
#include <regex.h>
#include <sys/wait.h>

size_t tests_skipped;

void test_list_add(test_list *list, const char *name, CMUnitTestFunction run, CMFixtureFunction set_up,
                   CMFixtureFunction tear_down) {
    if (list->n == sizeof list->items / sizeof *list->items) abort();
    list->items[list->n++] = (struct CMUnitTest){name, run, set_up, tear_down, NULL};
}

/* Keeps the tests whose names match a regular expression. */
static void leave_matching(const char *asked, struct CMUnitTest *tests, size_t *n) {
    size_t all = *n;
    regex_t pattern;
    *n = 0;
    if (regcomp(&pattern, asked, REG_EXTENDED | REG_NOSUB)) return;
    for (size_t i = 0; i < all; i++)
        if (regexec(&pattern, tests[i].name, 0, NULL, 0) == 0) tests[(*n)++] = tests[i];
    regfree(&pattern);
}

/* Removes the tests that a file lists: per line this program's name and the test's. */
static void remove_listed(const char *file, struct CMUnitTest *tests, size_t *n) {
    const char *slash = strrchr(program_invocation_name, '/');
    const char *program = slash ? slash + 1 : program_invocation_name;
    char of[64], name[128], line[256];
    FILE *f = fopen(file, "r");
    if (!f) fprintf(stderr, "cannot open %s\n", file), exit(1);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%63s %127s", of, name) != 2 || strcmp(of, program) != 0) continue;
        for (size_t i = 0; i < *n; i++)
            if (!strcmp(tests[i].name, name)) {
                memmove(tests + i, tests + i + 1, (--*n - i) * sizeof *tests);
                break;
            }
    }
    fclose(f);
}

int run_counting_skips(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction set_up,
                       CMFixtureFunction tear_down) {
    enum { SKIPPED = 77 };
    const char *only = getenv("GQUANT_TEST_ONLY"), *listed = getenv("GQUANT_TEST_SKIP");
    struct CMUnitTest *some = malloc(n * sizeof *some);
    if (!some) return 1;
    memcpy(some, tests, n * sizeof *some);
    if (only) leave_matching(only, some, &n);
    if (!n) return free(some), fprintf(stderr, "no test matches %s\n", only), 1;
    if (listed) remove_listed(listed, some, &n);
    int failed = n ? _cmocka_run_group_tests(name, some, n, set_up, tear_down) : 0;
    free(some);
    if (tests_skipped) printf("skipped: %zu of %zu tests\n", tests_skipped, n);
    return failed ? 1 : tests_skipped == n ? SKIPPED : 0;
}

bool have_shared(void) { return access(GQ_SHARED "/golden", R_OK) == 0; }

const char *shared_path(const char *relative) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", GQ_SHARED, relative);
    if (access(path, R_OK) != 0) {
        print_message("skipped: needs %s\n", path);
        skip();
    }
    return path;
}

const char *test_path(const char *relative) {
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", GQ_TESTS, relative);
    return path;
}

char *temporary_folder(void) {
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    assert_true(asprintf(&path, "%s/gquant-test-XXXXXX", base ? base : "/tmp") > 0);
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

void remove_folder(char *path) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(path);
}

uint8_t *read_whole(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    uint8_t *bytes = malloc((size_t)n + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)n, f), n);
    bytes[n] = 0;
    fclose(f);
    if (size) *size = (size_t)n;
    return bytes;
}

void write_whole(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

bool exists(const char *path) { return access(path, F_OK) == 0; }

void assert_near(double found, double expected, double most) {
    if (!(fabs(found - expected) <= most * fabs(expected)))
        fail_msg("%.12g, expected %.12g", found, expected);
}

typedef struct capture {
    int fd;
    char *text;
    size_t n, room;
} capture;

static void drain(capture *c) {
    if (c->room - c->n < 4096) c->text = realloc(c->text, c->room = 2 * c->room + 8192);
    assert_non_null(c->text);
    ssize_t got = read(c->fd, c->text + c->n, c->room - c->n - 1);
    if (got <= 0) {
        close(c->fd);
        c->fd = -1;
        got = 0;
    }
    c->text[c->n += (size_t)got] = 0;
}

char *command_path(void) {
    char *other = getenv("GQUANT_TEST_COMMAND");
    return other ? other : GQ_BUILT_COMMAND;
}

bool command_stands_in(void) { return getenv("GQUANT_TEST_COMMAND"); }

int run_command(const char *const *argv, char **out, char **err) {
    int pipes[2][2];
    assert_int_equal(pipe(pipes[0]) | pipe(pipes[1]), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipes[0][1], 1), dup2(pipes[1][1], 2);
        for (int i = 0; i < 4; i++) close(pipes[i / 2][i % 2]);
        const char *program = argv[0] ? argv[0] : command_path();
        size_t n = 1;
        while (argv[n]) n++;
        char **copy = calloc(n + 1, sizeof *copy);
        copy[0] = strdup(program);
        for (size_t i = 1; i < n; i++) copy[i] = strdup(argv[i]);
        execvp(program, copy);
        _exit(127);
    }
    capture c[2] = {{.fd = pipes[0][0]}, {.fd = pipes[1][0]}};
    close(pipes[0][1]), close(pipes[1][1]);
    while (c[0].fd >= 0 || c[1].fd >= 0) {
        struct pollfd p[2] = {{c[0].fd, POLLIN, 0}, {c[1].fd, POLLIN, 0}};
        if (poll(p, 2, -1) < 0) continue;
        for (int i = 0; i < 2; i++)
            if (p[i].fd >= 0 && p[i].revents) drain(&c[i]);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (out)
        *out = c[0].text;
    else
        free(c[0].text);
    if (err)
        *err = c[1].text;
    else
        free(c[1].text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
