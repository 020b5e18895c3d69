/* System calls that fail under gquant imatrix compute, or at which it is killed: it says so, and the same
 * command makes the same file afterwards. */
#include <errno.h>
#include <sys/resource.h>

#include "tests/faults/fault_runs.h"
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"

FIXTURE(start) {
    folder = temporary_folder();
    model_save(evaluation_model(2), path("model.gguf"));
    write_whole(path("ids"), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", 38);
    return 0;
}

/* The exit status; *says: standard error. */
static int compute(const char *out, const char *fault, char **says) {
    return run_faulty((const char *const[]){NULL, "imatrix", "compute", "-q", "--threads", "1", "--context",
                                            "8", path("model.gguf"), "--ids", path("ids"), out, NULL},
                      fault ? "GQ_FAULT" : NULL, fault, says);
}

static void once(const char *kind, size_t n, const char *error) {
    char fault[64], *says, *again;
    const char *out = path("out.gguf");
    snprintf(fault, sizeof fault, "%s:%zu:%s", kind, n, error);
    int status = compute(out, fault, &says);
    if (status != 0 && status != 1 && status != 137) fail_msg("%s: status %d: %s", fault, status, says);
    if (status == 1 && !strstr(says, "gquant: error: ")) fail_msg("%s: '%s'", fault, says);
    if (status == 0) assert_string_equal(says, "");
    if (exists(out)) unlink(path("wanted2")), rename(out, path("wanted2"));
    if (compute(out, NULL, &again) != 0) fail_msg("after %s: %s", fault, again);
    assert_same_file(path("wanted"), out);
    if (status == 0) assert_same_file(path("wanted"), path("wanted2"));
    assert_false(exists(path(".out.gguf.gquant-states")));
    unlink(out), unlink(path("wanted2"));
    free(says), free(again);
}

TEST(the_same_command_makes_the_same_file) {
    static const struct {
        const char *kind;
        size_t first, last, step; /* calls */
        int error;                /* 0: killed */
    } faults[] = {{"pwrite", 1, 16, 3, EIO},
                  {"pwrite", 2, 16, 2, 0},
                  {"fdatasync", 1, 4, 1, EIO},
                  {"fallocate", 1, 1, 1, ENOSPC},
                  {"fallocate", 1, 1, 1, EOPNOTSUPP},
                  {"rename", 1, 1, 1, EIO},
                  {"fsync", 1, 1, 1, EIO},
                  {"unlink", 1, 1, 1, 0}};
    char *says;
    assert_int_equal(compute(path("wanted"), NULL, &says), 0);
    free(says);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (size_t n = faults[i].first; n <= faults[i].last; n += faults[i].step) {
            char error[16];
            snprintf(error, sizeof error, faults[i].error ? "%d" : "kill", faults[i].error);
            once(faults[i].kind, n, error);
        }
}

/* Asked for before the work. */
TEST(space_is_set_aside_first) {
    struct rlimit old, small;
    char *says, fault[32];
    snprintf(fault, sizeof fault, "fallocate:1:%d", ENOSPC);
    assert_int_equal(compute(path("full.gguf"), fault, &says), 1);
    assert_non_null(strstr(says, "for the hidden states of all tokens: it needs "));
    free(says);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old, small.rlim_cur = 20000;
    setrlimit(RLIMIT_FSIZE, &small);
    int status = compute(path("full.gguf"), NULL, &says);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, 1);
    assert_non_null(strstr(says, "files may have at most 20000 here"));
    free(says);
    assert_false(exists(path("full.gguf")) || exists(path(".full.gguf.gquant-states")));
}

/* evaluate's file of states, where the n-th open is one that the file system cannot do; whether it was that
 * file's, which then has a name for a moment. */
static bool has_a_name_for_a_moment(size_t n) {
    char fault[32], *says;
    size_t size;
    snprintf(fault, sizeof fault, "open:%zu:%d", n, EOPNOTSUPP);
    unlink(path("log"));
    setenv("GQ_FAULT_LOG", path("log"), 1);
    int status =
        run_faulty((const char *const[]){NULL, "evaluate", "-q", "--threads", "1", "--context", "8",
                                         "--memory", "1M", path("model.gguf"), "--ids", path("ids"), NULL},
                   "GQ_FAULT", fault, &says);
    unsetenv("GQ_FAULT_LOG");
    char *log = exists(path("log")) ? (char *)read_whole(path("log"), &size) : NULL;
    bool named = log && strstr(log, "unlink .gquant-states-");
    if (named && status != 0) fail_msg("%s: status %d: %s", fault, status, says);
    free(log), free(says);
    return named;
}

TEST(states_need_no_nameless_files) {
    size_t n = 1;
    while (n < 40 && !has_a_name_for_a_moment(n)) n++;
    assert_true(n < 40);
}

int main(void) { return tests_run(start, folder_remove); }
