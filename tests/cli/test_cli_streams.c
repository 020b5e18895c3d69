/* Standard descriptors that are closed, full or left by their reader; files that may not grow. */
#include "tests/support/command.h"
#include "tests/support/folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

FIXTURE(set_up) {
    folder = model_folder();
    quantize(path("model-F16.gguf"), path("wanted.gguf"), "Q8_0", 2);
    return 0;
}

/* Exit status of a shell script in the folder, where $gquant is the command; *err: what went to standard
 * error, malloc'ed. */
static int shell(const char *script, char **err) {
    char *whole;
    assert_true(asprintf(&whole, "cd '%s' && gquant='%s' && { %s\n}", folder, command_path(), script) > 0);
    int status = run_command((const char *const[]){"bash", "-c", whole, NULL}, NULL, err);
    free(whole);
    return status;
}

static void expect(int status, const char *mention, const char *script) {
    char *err;
    int found = shell(script, &err);
    if (found != status) fail_msg("%s: exit status %d, expected %d: %s", script, found, status, err);
    if (!strstr(err, mention)) fail_msg("%s: expected \"%s\" in: %s", script, mention, err);
    free(err);
}

/* Whichever descriptors are closed, none becomes the model's: log lines, which are longer than the header
 * here, would land in it. */
TEST(test_closed_descriptors) {
    static const char *const closings[] = {"<&-", ">&-", "2>&-"};
    char name[16];
    model *m = model_new("x", 1);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "t%d", i);
        model_add(m, name, GGUF_F16, (uint64_t[4]){256, 2}, NULL);
    }
    model_save(m, path("many.gguf"));
    quantize(path("many.gguf"), path("wanted-many.gguf"), "Q8_0", 2);
    for (int set = 0; set < 8; set++) {
        char script[256] = "$gquant -v -r closed.json many.gguf closed.gguf=Q8_0 b.gguf=Q4_0 c.gguf=Q4_K_M";
        for (int i = 0; i < 3; i++)
            if (set >> i & 1) strcat(strcat(script, " "), closings[i]);
        expect(0, "", script);
        assert_same_file(path("closed.gguf"), path("wanted-many.gguf"));
        json_free(json_file(path("closed.json")));
        expect(0, "", "rm closed.gguf closed.json b.gguf c.gguf");
    }
    expect(0, "", "rm many.gguf wanted-many.gguf");
    assert_int_equal(count_files(folder), 3);
}

/* The library's files stay away from the standard descriptors, too. */
TEST(test_library_leaves_descriptors) {
    int kept[3];
    gq_file file;
    for (int fd = 0; fd < 3; fd++) kept[fd] = fcntl(fd, F_DUPFD, 10), close(fd);
    bool ok = gq_file_open(&file, path("wanted.gguf"), NULL);
    int fd = file.fd, other = gq_open(path("new"), O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 3; i++) dup2(kept[i], i), close(kept[i]);
    assert_true(ok && fd > 2 && other > 2);
    gq_file_close(&file), close(other);
    unlink(path("new"));
}

/* Where the text is the product, losing it is a failure; where it is a model, that is finished and stays. */
TEST(test_full_output) {
    static const char *const texts[] = {"types",
                                        "--help",
                                        "--version",
                                        "info wanted.gguf",
                                        "plan model-F16.gguf",
                                        "verify wanted.gguf",
                                        "compare model-F16.gguf wanted.gguf",
                                        "imatrix show imatrix.dat",
                                        "completion bash",
                                        "-n model-F16.gguf Q4_K_M"};
    static const char *const ways[] = {">/dev/full", ">&-"};
    char script[256];
    for (size_t way = 0; way < 2; way++) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            snprintf(script, sizeof script, "$gquant %s %s", texts[i], ways[way]);
            expect(1, "cannot write to standard output", script);
        }
        snprintf(script, sizeof script, "$gquant model-F16.gguf full.gguf Q8_0 -r full.json %s", ways[way]);
        expect(0, "the work itself is done", script);
        assert_same_file(path("full.gguf"), path("wanted.gguf"));
        json_free(json_file(path("full.json")));
        snprintf(script, sizeof script, "$gquant -q --force model-F16.gguf full.gguf Q8_0 %s", ways[way]);
        expect(0, "", script); /* nothing to say, nothing lost */
        assert_int_equal(unlink(path("full.gguf")) | unlink(path("full.json")), 0);
    }
    expect(2, "Try 'gquant --help'", "$gquant --nonsense >/dev/full"); /* stays what it was */
}

/* A reader that has seen enough ends a text, and never a model. */
TEST(test_reader_leaves) {
    expect(0, "", "set -o pipefail; $gquant types | head -1; test $? = 0 -o $? = 141");
    expect(0, "", "$gquant -v model-F16.gguf left.gguf Q8_0 | true; test ${PIPESTATUS[0]} = 0");
    expect(0, "", "$gquant -v --force model-F16.gguf left.gguf Q8_0 2>&1 | true; test ${PIPESTATUS[0]} = 0");
    assert_same_file(path("left.gguf"), path("wanted.gguf"));
    unlink(path("left.gguf"));
    assert_int_equal(count_files(folder), 3);
}

/* A link such as /dev/stdout is no name for a file. */
TEST(test_no_device_is_replaced) {
    assert_int_equal(symlink("/dev/null", path("device.gguf")), 0);
    expect(1, "is a device", "$gquant --force model-F16.gguf device.gguf Q8_0");
    expect(1, "is a device", "$gquant imatrix convert --force imatrix.dat device.gguf");
    expect(1, "not a regular file", "$gquant -r /dev/stdout model-F16.gguf device.gguf Q8_0");
    assert_int_equal(unlink(path("device.gguf")), 0);
    /* An open file of a process is one, too, also where it is a regular file; so is what would be new there. */
    static const char *const links[] = {"/proc/self/fd/1", "chain.gguf"};
    assert_int_equal(symlink("/proc/self/fd/1", path("chain.gguf")), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(symlink(links[i], path("device.gguf")), 0);
        expect(1, "leads to /proc/self/fd/1, which belongs to the system",
               "$gquant --force model-F16.gguf device.gguf Q8_0 >stdout; rc=$?; cat stdout; rm stdout; "
               "test -L device.gguf && exit $rc");
        assert_int_equal(unlink(path("device.gguf")), 0);
    }
    assert_int_equal(unlink(path("chain.gguf")), 0);
    expect(1, "is in /dev, which belongs to the system", "$gquant -n model-F16.gguf /dev/new.gguf Q8_0");
    assert_int_equal(count_files(folder), 3);
}

/* Nor does a report, a recipe or a log take the place of a model or an imatrix; --force is for outputs. */
TEST(test_no_work_is_replaced) {
    expect(1, "--recipe-out imatrix.dat: an importance matrix is there",
           "$gquant -n --force model-F16.gguf new.gguf Q8_0 --recipe-out imatrix.dat");
    expect(1, "--report r.json: a GGUF file is there",
           "cp wanted.gguf r.json; $gquant -n model-F16.gguf new.gguf Q8_0 -r r.json; rc=$?; "
           "cmp r.json wanted.gguf && rm r.json && exit $rc");
    expect(1, "--log-file wanted.gguf: a GGUF file is there",
           "$gquant verify model-F16.gguf --log-file wanted.gguf");
    assert_int_equal(count_files(folder), 3);
}

/* A limit on the size of files is an error that says so, before any work; whoever calls the library. */
TEST(test_size_limit) {
    size_t n;
    char mention[128];
    free(read_whole(path("wanted.gguf"), &n));
    snprintf(mention, sizeof mention,
             "limited.gguf: it needs %zu bytes, and files may have at most 102400 here", n);
    expect(1, mention, "ulimit -f 100; $gquant model-F16.gguf limited.gguf Q8_0");
    expect(1, "ulimit -f", "ulimit -f 0; $gquant model-F16.gguf limited.gguf Q8_0");
    expect(1, "files may have at most 102400",
           "ulimit -f 100; $gquant --part 1/2 model-F16.gguf limited.gguf Q8_0");
    expect(1,
           "r.json: cannot write: File too large, files may have at most 1024 bytes here (raise the limit: "
           "ulimit -f)",
           "ulimit -f 1; $gquant -n -r r.json model-F16.gguf Q8_0");
    expect(0, "--log-file log: cannot write: File too large; events are missing from it",
           "ulimit -f 1; head -c 1000 /dev/zero >log; $gquant verify wanted.gguf --log-file log; rc=$?; rm "
           "log; exit $rc");
    expect(1, "out.gguf: cannot write: File too large, files may have at most 1024",
           "ulimit -f 1; $gquant imatrix convert imatrix.dat out.gguf");
    expect(1, "the measurements are not saved", /* a file beside the input */
           "ulimit -f 1; $gquant --target-bpw 6 model-F16.gguf limited.gguf");
    assert_int_equal(count_files(folder), 3);
}

/* In a process of its own, where SIGXFSZ means what it means by default. */
TEST(test_size_limit_of_library) {
    static const char text[1000000];
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        gq_error e = {.text = ""};
        gq_output out = {.path = path("limited.gguf"), .filetype = "Q8_0"};
        gq_options o = {.size = sizeof o, .input = path("model-F16.gguf"), .outputs = &out, .n_outputs = 1};
        gq_plan *plan = gq_plan_new(&o, &e);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, RLIM_INFINITY});
        bool right = plan && !gq_run(plan, NULL, NULL, &e) && strstr(e.text, "ulimit -f") &&
                     !gq_write_whole(path("much"), false, text, sizeof text, &e) &&
                     strstr(e.text, "ulimit -f");
        gq_plan_free(plan);
        sigset_t pending, blocked;
        right = right && !sigpending(&pending) && !sigismember(&pending, SIGXFSZ);
        right = right && !sigprocmask(SIG_BLOCK, NULL, &blocked) && !sigismember(&blocked, SIGXFSZ);
        _exit(right ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(count_files(folder), 3);
}

int main(void) { return tests_run(set_up, folder_remove); }
