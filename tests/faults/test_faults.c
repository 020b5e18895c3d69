/* System calls that fail, power that fails, disks that are full: never a wrong file under the output's name.
 */
#include "tests/faults/fault_runs.h"
#include "tests/support/command.h"
#include "tests/support/tiny_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "quantize/run/run.h"

/* One whose encoding takes some milliseconds, so that the journal, which is written each millisecond, is
 * written before all is done. */
#define TYPE "Q4_K_S"

FIXTURE(set_up) {
    folder = temporary_folder();
    /* Two chunks of many strips, and small ones around them. */
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){256, 64}, NULL);
    model_add(m, "blk.0.ffn_norm.weight", GGUF_F32, (uint64_t[4]){1023}, NULL);
    model_add(m, "blk.0.ffn_up.weight", GGUF_F16, (uint64_t[4]){1024, 1100}, NULL);
    model_add(m, "output_norm.weight", GGUF_F32, (uint64_t[4]){1023}, NULL);
    model_save(m, path("in.gguf"));
    quantize(path("in.gguf"), path("wanted.gguf"), TYPE, 2);
    return 0;
}

/* ---- runs in a process of their own, with faults ---- */

typedef struct result {
    int status;        /* exit status, or 128 + signal */
    char text[1500];   /* the error's */
    long long resumed; /* bytes */
} result;

static void note_progress(void *user, const gq_progress *p) {
    *(long long *)user = (long long)p->bytes_resumed;
}

/* test_faults IN OUT FORCE: quantize, and say how it went on standard output. */
static int run_as_asked(char **arguments) {
    gq_output out = {.path = arguments[2], .filetype = TYPE};
    gq_options o = {.size = sizeof o,
                    .sync_ms = 1,
                    .input = arguments[1],
                    .outputs = &out,
                    .n_outputs = 1,
                    .threads = 2,
                    .effort = GQ_EFFORT_DEFAULT,
                    .force = *arguments[3] == '1'};
    gq_error e = {.text = ""};
    long long resumed = 0;
    gq_callbacks callbacks = {sizeof callbacks, &resumed, note_progress, NULL, NULL};
    alarm(60); /* a hang is a failure, not a wait */
    gq_plan *plan = gq_plan_new(&o, &e);
    bool done = plan && gq_run(plan, &callbacks, NULL, &e);
    gq_plan_free(plan);
    printf("%lld %s", resumed, done ? "" : e.text);
    return !done;
}

static result run_with(const char *out, const char *force, const char *variable, const char *value) {
    result r = {.status = 0};
    int pipe_[2], status;
    char buffer[2000];
    size_t n = 0;
    assert_int_equal(pipe(pipe_), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(pipe_[1], 1), close(pipe_[0]), close(pipe_[1]);
        setenv("LD_PRELOAD", GQ_FAULTS, 1);
        if (variable) setenv(variable, value, 1);
        execl("/proc/self/exe", "test_faults", path("in.gguf"), out, force, (char *)NULL);
        _exit(127);
    }
    close(pipe_[1]);
    for (ssize_t got; n < sizeof buffer - 1 && (got = read(pipe_[0], buffer + n, sizeof buffer - 1 - n)) > 0;)
        n += (size_t)got;
    buffer[n] = 0;
    close(pipe_[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    sscanf(buffer, "%lld %1499[^\n]", &r.resumed, r.text);
    return r;
}

/* ---- calls that fail ---- */

/* After a run with a fault: all right, or nothing there; and if it has left anything, the next run is all
 * right. */
static void check_outcome(const result *r, const char *fault, bool must_succeed) {
    if (r->status == 0) {
        assert_same_file(path("wanted.gguf"), path("run/out.gguf"));
        assert_int_equal(unlink(path("run/out.gguf")), 0);
    } else {
        if (must_succeed || r->status != 1) fail_msg("%s: status %d: %s", fault, r->status, r->text);
        if (exists(path("run/out.gguf"))) fail_msg("%s left a file: %s", fault, r->text);
        if (!r->text[0]) fail_msg("%s: failed without a word", fault);
        /* unlink itself may be what fails */
        if (count_files(path("run")) > 0 && !strstr(r->text, "continues from there") &&
            strncmp(fault, "unlink", 6) != 0)
            fail_msg("%s left files and did not say so: %s", fault, r->text);
    }
    if (count_files(path("run")) == 0) return;
    result next = run_with(path("run/out.gguf"), "0", NULL, NULL);
    if (next.status) fail_msg("after %s: %s", fault, next.text);
    assert_same_file(path("wanted.gguf"), path("run/out.gguf"));
    assert_int_equal(count_files(path("run")), 1);
    assert_int_equal(unlink(path("run/out.gguf")), 0);
}

TEST(every_call_may_fail) {
    static const struct {
        const char *kind;
        int error;
        bool harmless; /* the run must succeed all the same */
    } kinds[] = {
        {"open", EMFILE, false},      {"open", EACCES, false},
        {"pread", EIO, false},        {"pread", EINTR, true},
        {"pread", -1, true},          {"pwrite", EIO, false},
        {"pwrite", ENOSPC, false},    {"pwrite", EDQUOT, false},
        {"pwrite", EINTR, true},      {"pwrite", -1, true},
        {"fsync", EIO, false},        {"fdatasync", EIO, false},
        {"fallocate", ENOSPC, false}, {"fallocate", EOPNOTSUPP, true},
        {"fallocate", EINTR, true},   {"rename", EIO, false},
        {"rename", EINVAL, true},     {"unlink", EACCES, false},
        {"flock", ENOLCK, true},      {"thread", EAGAIN, true},
    };
    assert_int_equal(mkdir(path("run"), 0777), 0);
    long tried = 0, synced = 0;
    for (int turn = 0; turn < 50 && synced < 1;
         turn++) { /* on a busy machine all may be done before a sync */
        result plain = run_with(path("run/out.gguf"), "0", "GQ_FAULT_COUNT", path("counts"));
        assert_int_equal(plain.status, 0);
        assert_int_equal(unlink(path("run/out.gguf")), 0);
        synced = calls_counted("fdatasync");
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        long n = calls_counted(kinds[k].kind);
        if (n < 1) fail_msg("%s is never called", kinds[k].kind);
        /* Threads and the journal's timer make the number of some calls vary a little; look beyond it. */
        for (long i = 1; i <= n + 2; i++, tried++) {
            char fault[64];
            bool persistent = i % 2 == 0 && !kinds[k].harmless && kinds[k].error > 0;
            snprintf(fault, sizeof fault, kinds[k].error < 0 ? "%s:%ld%s:short" : "%s:%ld%s:%d",
                     kinds[k].kind, i, persistent ? "+" : "", kinds[k].error);
            result r = run_with(path("run/out.gguf"), "0", "GQ_FAULT", fault);
            check_outcome(&r, fault, kinds[k].harmless);
        }
    }
    print_message("%ld faults were tried\n", tried);
}

TEST(a_file_to_replace_stays_until_the_new_one_is_whole) {
    static const char *const kinds[] = {"pwrite", "fsync", "rename", "fallocate"};
    write_whole(path("old.gguf"), "old", 3);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char fault[64];
        snprintf(fault, sizeof fault, "%s:1:5", kinds[k]);
        assert_int_equal(run_with(path("old.gguf"), "1", "GQ_FAULT", fault).status, 1);
        size_t n;
        uint8_t *bytes = read_whole(path("old.gguf"), &n);
        assert_int_equal(n, 3);
        assert_memory_equal(bytes, "old", 3);
        free(bytes);
    }
    assert_int_equal(run_with(path("old.gguf"), "1", NULL, NULL).status, 0);
    assert_same_file(path("wanted.gguf"), path("old.gguf"));
}

/* The command goes on with the threads it gets, and says so. */
TEST(fewer_threads_do_the_work) {
    static const char *const says[] = {"only 1 of 2 threads", "only 1 of 2 threads", NULL};
    for (size_t k = 0; k < sizeof says / sizeof *says; k++) { /* the first that is started is the journal's */
        char fault[32], *err;
        snprintf(fault, sizeof fault, "thread:%zu+:%d", k + 1, EAGAIN);
        const char *words[] = {NULL, "-t", "2", path("in.gguf"), path("threads.gguf"), TYPE, NULL};
        assert_int_equal(run_faulty(words, "GQ_FAULT", fault, &err), 0);
        if (says[k] ? !strstr(err, says[k]) : strstr(err, "threads could") != NULL)
            fail_msg("%s: %s", fault, err);
        assert_same_file(path("wanted.gguf"), path("threads.gguf"));
        assert_int_equal(unlink(path("threads.gguf")), 0);
        free(err);
    }
}

/* So does a publication, of each of its files. */
TEST(fewer_threads_make_what_is_beside) {
    char *err;
    tiny_folder_write(path("Target"), 3, 0, 1), tiny_folder_write(path("Small"), 2, 0, 1);
    const char *words[] = {NULL,   "publish", "-t",          "2", path("Target"), "--out-dir", path("with"),
                           "Q8_0", "--draft", path("Small"), NULL};
    assert_int_equal(run_faulty(words, "GQ_FAULT", "thread:1+:11", &err), 0);
    if (!strstr(err, "draft-Target-Q8_0.gguf: only 1 of 2 threads")) fail_msg("%s", err);
    free(err);
}

/* ---- the order of things ---- */

/* The command under the shim, with `variable` set. */
static void command_with(int status, const char *variable, const char *value, const char *out) {
    const char *words[] = {NULL, "--split-max-size", "500000", path("in.gguf"), out, TYPE, NULL};
    assert_int_equal(run_faulty(words, variable, value, NULL), status);
}

/* Whichever rename or sync fails: no first shard, by which the others are found, unless all are there. */
TEST(shards_get_their_names_together) {
    static const char *const faults[] = {"rename:1:5", "rename:2:5", "fsync:3:5", "fsync:4:5", "fsync:5:5"};
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        char *own = temporary_folder(), out[4096];
        snprintf(out, sizeof out, "%s/out.gguf", own);
        command_with(1, "GQ_FAULT", faults[k], out);
        assert_false(exists(in_folder(own, "out-00001-of-00002.gguf")));
        GQUANT(0, "--split-max-size", "500000", path("in.gguf"), out, TYPE);
        GQUANT(0, "-q", in_folder(own, "out-00001-of-00002.gguf"), in_folder(own, "merged.gguf"), "COPY");
        assert_same_file(path("wanted.gguf"), in_folder(own, "merged.gguf"));
        assert_int_equal(count_files(own), 3);
        remove_folder(own);
    }
}

/* From the first full sync on: every shard is whole before any is synced, synced before that is recorded, and
 * recorded before any gets its name. The names are safe before the record goes, and that before the journal.
 */
TEST(names_come_last) {
    char *own = temporary_folder(), out[4096], kind[32], name[256], order[4096] = "";
    snprintf(out, sizeof out, "%s/out.gguf", own);
    command_with(0, "GQ_FAULT_LOG", path("log"), out);
    FILE *f = fopen(path("log"), "r");
    assert_non_null(f);
    while (fscanf(f, "%31s %255s", kind, name) == 2)
        if (*order || !strcmp(kind, "fsync")) strcat(strcat(strcat(strcat(order, kind), " "), name), "\n");
    fclose(f);
    char wanted[4096];
    const char *base = strrchr(own, '/') + 1;
    snprintf(wanted, sizeof wanted,
             "fsync .out-00001-of-00002.gguf.gquant\nfsync .out-00002-of-00002.gguf.gquant\n"
             "pwrite .out-00001-of-00002.gguf.gquant-names\npwrite .out-00001-of-00002.gguf.gquant-names\n"
             "pwrite .out-00001-of-00002.gguf.gquant-names\nfsync .out-00001-of-00002.gguf.gquant-names\n"
             "fsync %s\nrename out-00002-of-00002.gguf\n"
             "fsync %s\nrename out-00001-of-00002.gguf\n"
             "fsync %s\nunlink .out-00001-of-00002.gguf.gquant-names\n"
             "fsync %s\nunlink .out-00001-of-00002.gguf.gquant-journal\n",
             base, base, base, base);
    assert_string_equal(order, wanted);
    remove_folder(own);
}

/* ---- power cuts ---- */

/* Source bytes of the chunks that the journal of run/out.gguf says are done; -1: no journal of this plan. */
static long long promised_bytes(void) {
    gq_output out = {.path = path("run/out.gguf"), .filetype = TYPE};
    gq_plan *plan = gq_plan_new(&(gq_options){.size = sizeof(gq_options),
                                              .input = path("in.gguf"),
                                              .outputs = &out,
                                              .n_outputs = 1,
                                              .effort = GQ_EFFORT_DEFAULT},
                                NULL);
    assert_non_null(plan);
    long long bytes = -1;
    journal j;
    chunk_sum sum;
    assert_true(journal_open(&j, plan, true, NULL));
    for (uint64_t i = j.begin; j.resumed && i < j.end; i++) {
        const model_tensor *t = plan->sources[chunk_tensor(&plan->chunks, i)].tensor;
        bool done = journal_find(&j, i, &sum);
        if (bytes < 0) bytes = 0;
        if (done) bytes += (long long)(model_bytes(t, chunk_at(&plan->chunks, i, t->ne).n));
    }
    journal_close(&j);
    gq_plan_free(plan);
    return bytes;
}

/* Cuts the power at each write to the journal. Returns the most bytes that it promised before. */
static long long cut_power_everywhere(void) {
    bool ended = false;
    long long most = 0;
    for (int cut = 1; !ended; cut++) {
        char at[16];
        snprintf(at, sizeof at, "%d", cut);
        result r = run_with(path("run/out.gguf"), "0", "GQ_POWER_CUT", at);
        ended = r.status == 0;
        if (!ended) {
            assert_int_equal(r.status, 99);
            assert_false(exists(path("run/out.gguf")));
            long long promised = promised_bytes();
            r = run_with(path("run/out.gguf"), "0", NULL, NULL);
            assert_int_equal(r.status, 0);
            assert_int_equal(r.resumed, promised);
            if (promised > most) most = promised;
        }
        assert_same_file(path("wanted.gguf"), path("run/out.gguf"));
        assert_int_equal(count_files(path("run")), 1);
        assert_int_equal(unlink(path("run/out.gguf")), 0);
    }
    return most;
}

/* Whatever was not synced is gone, but nothing that the journal promised. The journal is written by the
 * clock, and a run of milliseconds may end before it promises anything. */
TEST(a_power_cut_makes_no_liar) {
    long long promised = 0;
    for (int turn = 0; turn < 50 && promised == 0; turn++) promised = cut_power_everywhere();
    assert_true(promised > 0);
}

/* ---- disks that are full ---- */

TEST(a_full_disk_is_told_before_the_work) {
    assert_int_equal(mkdir(path("full"), 0777), 0);
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", path("full"), "tmpfs", 0, "size=512k") != 0) {
        print_message("skipped: may not mount a small file system\n");
        skip();
    }
    result r = run_with(path("full/out.gguf"), "0", NULL, NULL);
    assert_int_equal(r.status, 1);
    struct stat st;
    char needs[64];
    assert_int_equal(stat(path("wanted.gguf"), &st), 0);
    snprintf(needs, sizeof needs, "needs %.3g kB and 5", (double)st.st_size / 1e3);
    if (!strstr(r.text, "out.gguf") || !strstr(r.text, needs)) fail_msg("'%s' lacks '%s'", r.text, needs);
    assert_int_equal(count_files(path("full")), 0);
    assert_int_equal(umount(path("full")), 0);
}

TEST(a_folder_that_may_not_be_written) {
    assert_int_equal(mkdir(path("sealed"), 0555), 0);
    if (geteuid() == 0) { /* to whom modes mean nothing */
        result r = run_with("/proc/out.gguf", "0", NULL, NULL);
        assert_int_equal(r.status, 1);
        if (!strstr(r.text, "/proc/out.gguf")) fail_msg("%s", r.text);
        return;
    }
    result r = run_with(path("sealed/out.gguf"), "0", NULL, NULL);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.text, "Permission denied"));
    assert_int_equal(count_files(path("sealed")), 0);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_as_asked(argv);
    return tests_run(set_up, folder_remove);
}
