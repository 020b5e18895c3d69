/* Two processes that begin the same output at the same moment: one at most is at work on it, and neither
 * takes the other's files for its own. */
#include <dirent.h>
#include <sys/stat.h>

#include "tests/faults/fault_runs.h"
#include "tests/support/command.h"

static void assert_others(const char *name) {
    size_t n;
    uint8_t *bytes = read_whole(path(name), &n);
    assert_int_equal(n, 5);
    assert_memory_equal(bytes, "other", 5);
    free(bytes);
}

/* Between the making of a file and its lock another process may have locked it, removed it as an unfinished
 * one, and begun its own. */
TEST(a_file_that_another_process_took_over) {
    static const struct {
        const char *fault, *option, *value, *name;
    } cases[] = {
        {"flock:1:other", "-t", "1", ".x.gguf.gquant"},
        {"flock:2:other", "-t", "1", ".y.gguf.gquant"},
        {"flock:3:other", "--part", "1/2", ".x.gguf.gquant-journal-1-of-2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *words[] = {
            NULL, cases[i].option, cases[i].value, path("in.gguf"), path("x.gguf=Q8_0"), path("y.gguf=Q4_0"),
            NULL};
        char *err;
        assert_int_equal(run_faulty(words, "GQ_FAULT", cases[i].fault, &err), 1);
        if (!strstr(err, "another process")) fail_msg("%s", err);
        free(err);
        assert_others(cases[i].name);
        assert_int_equal(count_files(folder), 2);
        assert_int_equal(remove(path(cases[i].name)), 0);
    }
}

typedef struct files_seen {
    size_t others;
    bool removes; /* all but the model */
} files_seen;

static void look_through(files_seen *seen) {
    DIR *d = opendir(folder);
    for (struct dirent *entry; (entry = readdir(d));) {
        struct stat st;
        const char *name = path(entry->d_name);
        if (stat(name, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        seen->others += st.st_size == 5;
        if (seen->removes && strcmp(entry->d_name, "in.gguf") != 0) assert_int_equal(unlink(name), 0);
    }
    closedir(d);
}

static int run_with_fault(const char *const *words, const char *fault) {
    setenv("GQ_FAULT_COUNT", path("counts"), 1);
    int status = run_faulty(words, "GQ_FAULT", fault, NULL);
    unsetenv("GQ_FAULT_COUNT");
    return status;
}

/* Killed when the output has its name: the same command finds that it is there, and cleans up. */
static void clean_up_after_joining(const char *fault) {
    static const char *const parts[] = {"1/2", "2/2"};
    const char *part[] = {NULL, "-q", "--part", NULL, path("in.gguf"), path("x.gguf=Q8_0"), NULL};
    for (size_t i = 0; i < 2; i++) {
        part[3] = parts[i];
        assert_int_equal(run_command(part, NULL, NULL), 0);
    }
    const char *join[] = {NULL, "-q", "--join", path("in.gguf"), path("x.gguf=Q8_0"), NULL};
    assert_int_equal(run_with_fault(join, "unlink:1:kill"), 137);
    assert_int_equal(run_with_fault(join, fault), 0);
}

/* Before each lock that cleaning up takes. */
TEST(what_has_a_left_journals_name_stays) {
    clean_up_after_joining("flock:1000:other");
    long locks = calls_counted("flock");
    assert_true(locks >= 2);
    look_through(&(files_seen){.removes = true});
    for (long n = 1; n <= locks; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "flock:%ld:other", n);
        clean_up_after_joining(fault);
        files_seen seen = {.removes = true};
        look_through(&seen);
        if (seen.others != 1) fail_msg("%s: %zu files are another's", fault, seen.others);
    }
}

int main(void) { return tests_run(folder_with_model, folder_remove); }
