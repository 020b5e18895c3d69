/* An unfinished run is gone on with, and one read fails: the run says so or goes on, and what was finished
 * stays. (Memory that runs out: tests/memory/test_unfinished_memory.c.) */
#include <errno.h>

#include "tests/faults/fault_runs.h"
#include "tests/support/command.h"
#include "tests/support/evaluation_model.h"

enum { TOKENS = 48 };

/* Conversations of 9 to 60 tokens, of which every other one counts a quarter: two and more share a window of 128. */
static void write_chats(void) {
    char text[4096] = "#gquant-chats 1\n";
    for (size_t c = 0, at = strlen(text); c < 8; c++) {
        for (size_t t = 0; t < 9 + c * 37 % 52; t++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s %zu", t % 2 ? " =1" : " =0.25",
                                   (c + 3) * (t + 1) * 31 % 512);
        at += (size_t)snprintf(text + at, sizeof text - at, "\n");
    }
    write_whole(path("chats"), text, strlen(text));
}

FIXTURE(start) {
    char ids[8 * TOKENS];
    folder = temporary_folder();
    setenv("GQUANT_SYNC_MS", "600000", 1); /* else how many syncs there are depends on the time */
    model_save(evaluation_model(2), path("model.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % 512);
    write_whole(path("ids"), ids, strlen(ids));
    write_chats();
    return 0;
}

/* ---- what is run ---- */

typedef struct job {
    const char *name;
    const char *words[12]; /* before the text, if any, and the files */
    const char *text;      /* NULL: none */
    const char *type;
    const char *kill;      /* when both layers are finished; NULL: its end leaves something to go on with */
    const char *kill_last; /* and when the output matrix is, too */
    const char *finished;  /* what a plan says after either */
    bool kills_alone;      /* no read of it is made to fail */
} job;

static const job jobs[] = {
    {"calibration",
     {"--threads", "1", "--context", "8", "--calibrate-ids"},
     "ids",
     "Q4_0",
     "fdatasync:7:kill",
     "fdatasync:9:kill",
     "\n2 of 2 layers are done already\n",
     false},
    {"importance",
     {"imatrix", "compute", "--threads", "1", "--context", "8", "--process-output", "--ids"},
     "ids",
     NULL,
     "fdatasync:5:kill",
     "fdatasync:6:kill",
     "\n2 layers are done already\n",
     false},
    {"calibration on chats",
     {"--threads", "2", "--context", "128", "--calibrate-ids"},
     "chats",
     "Q4_0",
     "fdatasync:7:kill",
     "fdatasync:9:kill",
     "\n2 of 2 layers are done already\n",
     true},
    {"importance of chats",
     {"imatrix", "compute", "--threads", "2", "--context", "128", "--process-output", "--ids"},
     "chats",
     NULL,
     "fdatasync:5:kill",
     "fdatasync:6:kill",
     "\n2 layers are done already\n",
     true},
    {"part", {"--threads", "1", "--part", "1/2"}, NULL, "Q4_0", NULL, NULL, "will be continued", false},
};

/* The exit status; *says: all that was printed. */
static int run(const job *j, const char *option, const char *variable, const char *value, char **says) {
    const char *argv[24] = {NULL};
    size_t n = 1;
    for (size_t i = 0; j->words[i]; i++) argv[n++] = j->words[i];
    if (j->text) argv[n++] = path(j->text);
    if (option) argv[n++] = option;
    argv[n++] = path("model.gguf"), argv[n++] = path("out"), argv[n++] = j->type;
    return run_faulty(argv, variable, value, says);
}

static size_t reads_of(const job *j, const char *option) {
    char *says;
    if (run(j, option, "GQ_FAULT_COUNT", path("counts"), &says) != 0) fail_msg("%s", says);
    free(says);
    assert_true(calls_counted("pread") > 0);
    return (size_t)calls_counted("pread");
}

/* ---- what it leaves ---- */

static const char *const left[] = {".out.gquant", ".out.gquant-journal", ".out.gquant-journal-1-of-2",
                                   ".out.gquant-states"};
enum { LEFT = sizeof left / sizeof *left };

typedef struct files {
    uint8_t *bytes[LEFT]; /* NULL: not there */
    size_t n[LEFT];
} files;

static files read_left(void) {
    files f = {.n = {0}};
    for (size_t i = 0; i < LEFT; i++)
        if (exists(path(left[i]))) f.bytes[i] = read_whole(path(left[i]), &f.n[i]);
    return f;
}

static void remove_all(void) {
    unlink(path("out"));
    for (size_t i = 0; i < LEFT; i++) unlink(path(left[i]));
}

static void put_back(const files *f) {
    remove_all();
    for (size_t i = 0; i < LEFT; i++)
        if (f->bytes[i]) write_whole(path(left[i]), f->bytes[i], f->n[i]);
}

/* ---- the test ---- */

static void fail_read(const job *j, size_t n) {
    char fault[64], *says, *then;
    snprintf(fault, sizeof fault, "pread:%zu:%d", n, EIO);
    int status = run(j, NULL, "GQ_FAULT", fault, &says);
    if (status != 0 && status != 1) fail_msg("%s, %s: status %d: %s", j->name, fault, status, says);
    if (strstr(says, "starts afresh")) fail_msg("%s, %s: %s", j->name, fault, says);
    if (exists(path("out"))) {
        assert_int_equal(status, 0);
        assert_same_file(path("wanted"), path("out"));
    } else {
        run(j, "--dry-run", NULL, NULL, &then);
        if (!strstr(then, j->finished)) fail_msg("%s, %s: %s\nthen: %s", j->name, fault, says, then);
        free(then);
    }
    free(says);
}

/* Of the plan's reads, nearly all of the model, not every one is tried. */
TEST(a_read_that_fails_loses_nothing) {
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const job *j = &jobs[i];
        char *says;
        if (j->kills_alone) continue;
        size_t plan_reads = reads_of(j, "--dry-run");
        assert_int_equal(run(j, NULL, NULL, NULL, &says), 0);
        free(says);
        if (j->kill) {
            rename(path("out"), path("wanted"));
            assert_int_equal(run(j, NULL, "GQ_FAULT", j->kill, &says), 137);
            free(says);
        }
        files f = read_left();
        size_t reads = reads_of(j, NULL), tried = 0;
        for (size_t n = 1; n <= reads; n += n + 16 < plan_reads ? 16 : 1, tried++) {
            put_back(&f);
            fail_read(j, n);
        }
        print_message("%s: %zu of %zu reads failed\n", j->name, tried, reads);
        remove_all(), unlink(path("wanted"));
        for (size_t k = 0; k < LEFT; k++) free(f.bytes[k]);
    }
}

/* The same command again, after a kill when its layers are finished, and after one behind the output matrix. */
TEST(a_kill_changes_no_byte) {
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const job *j = &jobs[i];
        const char *const kills[] = {j->kill, j->kill_last};
        char *says;
        if (!j->kill) continue;
        assert_int_equal(run(j, NULL, NULL, NULL, &says), 0);
        free(says), rename(path("out"), path("wanted"));
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(run(j, NULL, "GQ_FAULT", kills[k], &says), 137);
            free(says);
            assert_false(exists(path("out")));
            assert_int_equal(run(j, NULL, NULL, NULL, &says), 0);
            free(says);
            assert_same_file(path("wanted"), path("out"));
            remove_all();
        }
        unlink(path("wanted"));
    }
}

TEST(the_output_matrix_is_no_layer) {
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        const job *j = &jobs[i];
        char *says;
        if (!j->kill_last) continue;
        remove_all();
        assert_int_equal(run(j, NULL, "GQ_FAULT", j->kill_last, &says), 137);
        free(says);
        assert_int_equal(run(j, "--dry-run", NULL, NULL, &says), 0);
        if (!strstr(says, j->finished)) fail_msg("%s: %s", j->name, says);
        free(says);
    }
    remove_all();
}

/* ---- a file without a name ---- */

/* Calibrates a mixture of experts; an option and a variable may be NULL. */
static int calibrate_experts(const char *out, const char *memory, const char *option, const char *variable,
                             const char *fault, char **says) {
    const char *argv[] = {NULL,         "--threads",
                          "1",          "--context",
                          "8",          "--calibrate-ids",
                          path("many"), "--memory",
                          memory,       "--calibrate-steps",
                          "all",        "--measure-file",
                          "none",       path("experts.gguf"),
                          path(out),    "Q4_0",
                          option,       NULL};
    return run_faulty(argv, variable, fault, says);
}

/* Sets the least memory that it takes, and a little more, which has no room for inputs of matrices. */
static void find_memory(char memory[32]) {
    char *says;
    double least = 0;
    assert_int_equal(calibrate_experts("out", "1M", "--dry-run", NULL, NULL, &says), 2);
    const char *takes = strstr(says, " tokens take ");
    if (!takes || sscanf(takes, " tokens take %lf MiB", &least) != 1) fail_msg("%s", says);
    free(says);
    snprintf(memory, 32, "%.0f", (least + .5) * (1 << 20));
    assert_int_equal(calibrate_experts("out", memory, "--dry-run", NULL, NULL, &says), 0);
    if (!strstr(says, "\ncached activations: ") || strstr(says, " and 0 bytes on disk, of these"))
        fail_msg("%s", says);
    free(says);
}

/* Each second row of what is kept between looks cannot be read again, or the disk becomes full: it is
 * computed again. A disk that cannot set room aside keeps it all the same. */
TEST(what_is_kept_between_looks_may_fail) {
    static const struct {
        const char *variable, *fault;
    } faults[] = {{"GQ_FAULT_NAMELESS", "pread:2"},
                  {"GQ_FAULT_NAMELESS", "pwrite:99"},
                  {"GQ_FAULT", "fallocate:1+:95"}}; /* EOPNOTSUPP */
    enum { MANY = 480 };
    static char ids[8 * MANY];
    char memory[32], *says;
    model_save(expert_model(), path("experts.gguf"));
    for (size_t i = 0, at = 0; i < MANY; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % 512);
    write_whole(path("many"), ids, strlen(ids));
    find_memory(memory);
    if (calibrate_experts("wanted", memory, NULL, NULL, NULL, &says) != 0) fail_msg("%s", says);
    free(says);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        setenv("GQ_FAULT_LOG", path("log"), 1);
        if (calibrate_experts("out", memory, NULL, faults[i].variable, faults[i].fault, &says) != 0)
            fail_msg("%s: %s", faults[i].fault, says);
        unsetenv("GQ_FAULT_LOG");
        free(says);
        assert_same_file(path("wanted"), path("out"));
        char *log = (char *)read_whole(path("log"), NULL);
        if (!strstr(log, " (deleted)\n")) fail_msg("%s: nothing was kept in a file", faults[i].fault);
        free(log);
        unlink(path("out")), unlink(path("log"));
    }
}

/* An eighth of what is free on the disk stays free. */
TEST(what_is_kept_fills_no_disk) {
    char memory[32], *says;
    find_memory(memory);
    if (calibrate_experts("out", memory, "--dry-run", "GQ_FAULT_FREE", "8000", &says) != 0)
        fail_msg("%s", says);
    if (!strstr(says, " and 7.00 kB on disk, of these\n")) fail_msg("%s", says);
    free(says);
}

int main(void) { return tests_run(start, folder_remove); }
