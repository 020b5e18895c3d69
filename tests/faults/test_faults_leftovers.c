/* What a killed run has left is gone after the next one: hidden files of an output that is there already, and
 * small files that were being written; but never what somebody can still go on with. */
#include <fcntl.h>
#include <sys/file.h>

#include "tests/faults/fault_runs.h"
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"

static char *in, *text, *out;
static size_t inputs;

FIXTURE(start) {
    folder = temporary_folder();
    model *m = evaluation_model(2);
    in = strdup(path("model.gguf")), text = strdup(path("text")), out = strdup(path("out.gguf"));
    model_save(m, in);
    char letters[400];
    for (size_t i = 0; i < sizeof letters; i++) letters[i] = (char)('a' + i * i * 3 % 8);
    write_whole(text, letters, sizeof letters);
    inputs = count_files(folder);
    return 0;
}

static int end(void **state) {
    free(in), free(text), free(out);
    return folder_remove(state);
}

/* The exit status; *says: standard error, NULL: nobody asks. */
static int run(const char *const *words, const char *fault, char **says) {
    const char *argv[24] = {NULL};
    for (size_t i = 0; words[i]; i++) argv[i + 1] = words[i];
    return run_faulty(argv, fault ? "GQ_FAULT" : NULL, fault, says);
}

static void remove_outputs(void) {
    static const char *const names[] = {"out.gguf", "two.gguf", "out.json", "out-recipe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path(names[i]));
    assert_int_equal(count_files(folder), inputs);
}

/* Killed at each call that removes a file: where the output has its name by then the same command says that
 * it already exists and is complete, and leaves nothing beside it. Nothing tells what importance data were made of. */
static void cleaned_up_later(const char *what, size_t n_outputs, const char *const *words) {
    size_t killed = 0, left = 0;
    for (int n = 1;; n++) {
        char fault[32], *says;
        snprintf(fault, sizeof fault, "unlink:%d:kill", n);
        int status = run(words, fault, NULL);
        if (status == 0) break;
        assert_int_equal(status, 137);
        killed++;
        if (exists(out)) left += count_files(folder) > inputs + n_outputs;
        status = run(words, NULL, &says);
        if (status != 0) fail_msg("%s, %s: %s", what, fault, says);
        if (count_files(folder) != inputs + n_outputs)
            fail_msg("%s, %s: %zu files, after: %s", what, fault, count_files(folder), says);
        free(says);
        remove_outputs();
    }
    if (killed == 0 || left == 0) fail_msg("%s was never killed between a name and the cleaning up", what);
    remove_outputs();
}
#define CLEANED_UP(what, n_outputs, ...) \
    cleaned_up_later(what, n_outputs, (const char *const[]){__VA_ARGS__, NULL})

#define CALIBRATE "--context", "16", "--calibrate", text, "--threads", "1"
#define COMPUTE "imatrix", "compute", "-q", "--threads", "1", "--context", "16"

TEST(a_finished_output_keeps_nothing_beside_it) {
    CLEANED_UP("a run", 1, "-q", in, out, "Q8_0");
    CLEANED_UP("a calibration", 1, "-q", CALIBRATE, in, out, "Q4_0");
    char two[4096];
    snprintf(two, sizeof two, "%s=Q4_0", path("two.gguf"));
    char one[4096];
    snprintf(one, sizeof one, "%s=Q8_0", out);
    CLEANED_UP("two outputs", 2, "-q", in, one, two);
    CLEANED_UP("importance data", 1, COMPUTE, in, text, out);
}

TEST(parts_that_were_joined_leave_nothing) {
    for (size_t n = 0; n < 2; n++) {
        const char *const part[][8] = {{"-q", "--part", "1/2", in, out, "Q8_0", NULL},
                                       {"-q", "--part", "2/2", in, out, "Q8_0", NULL}},
                          *const join[] = {"-q", "--join", in, out, "Q8_0", NULL};
        for (size_t i = 0; i < 2; i++) assert_int_equal(run(part[i], NULL, NULL), 0);
        assert_int_equal(run(join, n ? "unlink:2:kill" : "unlink:1:kill", NULL), 137);
        assert_true(exists(out) && count_files(folder) > inputs + 1);
        assert_int_equal(run(join, NULL, NULL), 0); /* and says that all is there */
        assert_int_equal(count_files(folder), inputs + 1);
        remove_outputs();
    }
}

/* When all layers are done their states do not matter any more, whatever became of them: nothing is done
 * again. */
TEST(states_behind_the_last_layer_do_not_matter) {
    const char *const jobs[][12] = {{"-q", CALIBRATE, in, out, "Q4_0", NULL}, {COMPUTE, in, text, out, NULL}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char *says;
        assert_int_equal(run(jobs[i], "rename:1:kill", NULL), 137);
        int fd = open(path(".out.gguf.gquant-states"), O_WRONLY);
        for (size_t slot = 0; slot < 2; slot++) /* of the original, 400 tokens of 256 columns */
            assert_int_equal(pwrite(fd, "?", 1, (off_t)(4096 + slot * 400 * 256 * 4 + 5)), 1);
        close(fd);
        const char *loud[12];
        size_t k = 0, m = 0;
        for (; jobs[i][k]; k++)
            if (strcmp(jobs[i][k], "-q") != 0) loud[m++] = jobs[i][k];
        loud[m] = NULL;
        assert_int_equal(run(loud, NULL, &says), 0);
        if (strstr(says, "afresh")) fail_msg("%s", says);
        free(says);
        assert_int_equal(count_files(folder), inputs + 1);
        remove_outputs();
    }
}

/* An older output, and one in its place that is not finished: without --force nothing is touched. */
TEST(unfinished_work_stays) {
    const char *const jobs[][14] = {{"-q", in, out, "Q8_0", NULL, "--force"},
                                    {"-q", CALIBRATE, in, out, "Q4_0", NULL, "--force"},
                                    {COMPUTE, in, text, out, NULL, "--force"}};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const char *forced[14];
        size_t n = 0;
        for (; jobs[i][n]; n++) forced[n] = jobs[i][n];
        forced[n] = "--force", forced[n + 1] = NULL;
        write_whole(out, "an older one", 12);
        usleep(20000); /* times of change are those of the clock's last tick */
        assert_int_equal(run(forced, "rename:1:kill", NULL), 137); /* all is done, and has no name yet */
        size_t there = count_files(folder);
        assert_true(there > inputs + 1);
        assert_int_equal(run(jobs[i], NULL, NULL), 1);
        assert_int_equal(count_files(folder), there);
        assert_int_equal(run(forced, NULL, NULL), 0);
        assert_int_equal(count_files(folder), inputs + 1);
        remove_outputs();
    }
}

/* A run that takes the place of an unfinished calibration makes its states useless. */
TEST(another_run_takes_the_states_away) {
    const char *const calibrate[] = {"-q", CALIBRATE, in, out, "Q4_0", NULL}, *const plain[] = {"-q", in, out,
                                                                                                "Q8_0", NULL};
    assert_int_equal(run(calibrate, "rename:1:kill", NULL), 137);
    int fd = open(path(".out.gguf.gquant-states"), O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(run(plain, NULL, NULL), 0);
    assert_true(exists(path(".out.gguf.gquant-states"))); /* somebody has it */
    close(fd);
    assert_int_equal(unlink(out), 0);
    assert_int_equal(run(plain, NULL, NULL), 0);
    assert_int_equal(count_files(folder), inputs + 1);
    remove_outputs();
}

/* What is rounded but was damaged since is not gone on from, even where the states cannot be removed. */
TEST(layers_that_do_not_hold_are_never_used) {
    const char *const calibrate[] = {CALIBRATE, in, out, "Q4_0", NULL};
    static const char *const faults[] = {"unlink:1:13", NULL};
    char *wanted = strdup(path("two.gguf")), *says;
    const char *const undisturbed[] = {"-q", CALIBRATE, in, wanted, "Q4_0", NULL};
    assert_int_equal(run(undisturbed, NULL, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(run(calibrate, "rename:1:kill", NULL), 137);
        int fd = open(path(".out.gguf.gquant"), O_RDWR);
        assert_int_equal(pwrite(fd, "damaged", 7, (lseek(fd, 0, SEEK_END) - 200) / 4 * 3), 7);
        close(fd);
        int status = run(calibrate, faults[i], &says);
        if (status != (faults[i] ? 1 : 0) ||
            !strstr(says, faults[i] ? "cannot remove" : "the output lacks layers that were finished"))
            fail_msg("%d: %s", status, says);
        free(says);
        if (faults[i]) assert_int_equal(run(calibrate, NULL, NULL), 0);
        assert_same_file(wanted, out);
        assert_int_equal(unlink(out), 0);
    }
    remove_outputs();
    free(wanted);
}

/* Files that are whole and only lack names need no room for states. */
TEST(names_alone_set_no_states_aside) {
    char one[4096], two[4096];
    snprintf(one, sizeof one, "%s=Q4_0", out), snprintf(two, sizeof two, "%s=Q8_0", path("two.gguf"));
    const char *const calibrate[] = {"-q", CALIBRATE, in, one, two, NULL};
    assert_int_equal(run(calibrate, "rename:2:kill", NULL), 137);
    assert_int_equal(unlink(path(".out.gguf.gquant-states")), 0);
    setenv("GQ_FAULT_LOG", path("log"), 1);
    int status = run(calibrate, "fallocate:1:28", NULL);
    unsetenv("GQ_FAULT_LOG");
    assert_int_equal(status, 0);
    size_t n;
    char *log = (char *)read_whole(path("log"), &n);
    log[n - 1] = 0;
    if (strstr(log, "states")) fail_msg("%s", log);
    free(log);
    unlink(path("log"));
    assert_int_equal(count_files(folder), inputs + 2);
    remove_outputs();
}

/* Where each read gives half of what is asked for, runs go on from what was left all the same. */
TEST(short_reads_lose_nothing) {
    char one[4096], two[4096], *says;
    snprintf(one, sizeof one, "%s=Q4_0", out), snprintf(two, sizeof two, "%s=Q8_0", path("two.gguf"));
    const char *const jobs[][12] = {{in, one, two, NULL}, {CALIBRATE, in, one, two, NULL}};
    static const char *const killed[] = {"rename:1:kill", "rename:2:kill"};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(run(jobs[i / 2], killed[i % 2], NULL), 137);
        int status = run(jobs[i / 2], "pread:1+:short", &says);
        if (status != 0 || strstr(says, "afresh")) fail_msg("%zu: %d, %s", i, status, says);
        free(says);
        assert_int_equal(count_files(folder), inputs + 2);
        remove_outputs();
    }
}

/* Whatever interrupts the reading of what an unfinished run has left, the run goes on from there. */
TEST(interrupted_reading_loses_nothing) {
    static const char *const kinds[] = {"4", "short"}; /* EINTR */
    char one[4096], two[4096];
    snprintf(one, sizeof one, "%s=Q4_0", out), snprintf(two, sizeof two, "%s=Q8_0", path("two.gguf"));
    const char *const loud[] = {"--threads", "1", in, one, two, NULL}, *const quietly[] = {
                                                                           "-q", "--threads", "1", in,
                                                                           one,  two,         NULL};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int n = 1; n < 24; n++) {
            char fault[32], *says;
            snprintf(fault, sizeof fault, "pread:%d:%s", n, kinds[k]);
            assert_int_equal(run(quietly, "rename:2:kill", NULL), 137);
            int status = run(loud, fault, &says);
            if (status != 0 || strstr(says, "afresh") || strstr(says, "damaged"))
                fail_msg("%s: %d, %s", fault, status, says);
            free(says);
            remove_outputs();
        }
}

/* Killed at any call while a small file is written. */
TEST(small_files_leave_nothing) {
    static const char *const kinds[] = {"pwrite", "fsync", "rename"};
    const char *const make[] = {COMPUTE, in, text, out, NULL};
    assert_int_equal(run(make, NULL, NULL), 0);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int way = 0; way < 3; way++) {
            char fault[32], *report = strdup(path("out.json")), *recipe = strdup(path("out-recipe"));
            const char *const words[][10] = {{"imatrix", "convert", out, recipe, NULL},
                                             {"-n", "-q", "--report", report, in, "Q8_0", NULL},
                                             {"-n", "-q", "--recipe-out", recipe, in, "Q8_0", NULL}};
            snprintf(fault, sizeof fault, "%s:1:kill", kinds[k]);
            for (int times = 0; times < 3; times++) assert_int_equal(run(words[way], fault, NULL), 137);
            assert_int_equal(count_files(folder), inputs + 2);
            assert_int_equal(run(words[way], NULL, NULL), 0);
            assert_int_equal(count_files(folder), inputs + 2);
            unlink(report), unlink(recipe);
            free(report), free(recipe);
        }
    remove_outputs();
}

/* What is in the way of a small file's own name, or held by somebody who writes it just now, stays. */
TEST(small_files_go_round_what_is_in_the_way) {
    char *recipe = strdup(path("out-recipe")), *beside = strdup(path(".out-recipe.gquant-new"));
    const char *const words[] = {"-n", "-q", "--recipe-out", recipe, in, "Q8_0", NULL};
    assert_int_equal(symlink("text", beside), 0);
    assert_int_equal(run(words, NULL, NULL), 0);
    assert_int_equal(count_files(folder), inputs + 2);
    assert_int_equal(unlink(beside) | unlink(recipe), 0);
    int fd = open(beside, O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(run(words, NULL, NULL), 0);
    assert_true(exists(beside));
    close(fd);
    assert_int_equal(run(words, NULL, NULL), 0);
    assert_false(exists(beside));
    free(beside), free(recipe);
    remove_outputs();
}

/* Logits have a name of their own until they are whole: another's are not taken away, a killed run's are. */
TEST(logits_of_somebody_at_work_stay) {
    const char *const words[] = {"evaluate", "-q", "--context", "16", in,
                                 "--text",   text, "--logits",  out,  NULL};
    char *beside = strdup(path(".out.gguf.logits")), *says;
    write_whole(beside, "theirs", 6);
    int fd = open(beside, O_RDWR);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    assert_int_equal(run(words, NULL, &says), 1);
    if (!strstr(says, "another process")) fail_msg("%s", says);
    assert_true(exists(beside));
    close(fd);
    assert_int_equal(run(words, NULL, NULL), 0);
    assert_false(exists(beside));
    free(beside), free(says);
    remove_outputs();
}

int main(void) { return tests_run(start, end); }
