/* Several files get their names: killed or failing at any call, a run leaves each set old, new or without its
 * first shard, and the same command finishes it. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/faults/fault_runs.h"
#include "tests/support/shards.h"

enum { SHARDS = 3, MOST_FILES = 8 };

FIXTURE(set_up) {
    folder = temporary_folder();
    write_shards("whole", "in", SHARDS, 128, 0);
    setenv("GQUANT_SYNC_MS", "1", 1);
    return 0;
}

/* ---- what is run ---- */

typedef struct job {
    const char *name;
    const char *const words[8]; /* besides the input and the folder */
    const char *const old[8];   /* what is there before, made with these; none: nothing */
    bool parts;                 /* two parts come before, and these words join them */
    size_t n_sets;
    const char *sets[2][SHARDS]; /* files of each output, the first shard first */
} job;

#define SHARDS_OF(name) \
    { name "-00001-of-00003.gguf", name "-00002-of-00003.gguf", name "-00003-of-00003.gguf" }

enum { NEW_OUTPUTS = 2, JOINED_OUTPUTS = 5 };
static const job jobs[] = {
    {"new shards", {"--keep-split", "Q4_0"}, {NULL}, false, 1, {SHARDS_OF("in-Q4_0")}},
    {"replaced shards",
     {"--keep-split", "--force", "Q4_0"},
     {"--keep-split", "--pure", "--tensor-type", "blk=Q8_0", "Q4_0"},
     false,
     1,
     {SHARDS_OF("in-Q4_0")}},
    {"new outputs", {"Q4_0", "Q8_0"}, {NULL}, false, 2, {{"in-Q4_0.gguf"}, {"in-Q8_0.gguf"}}},
    {"replaced outputs",
     {"--force", "Q4_0", "Q8_0"},
     {"--tensor-type", "blk=Q5_0", "Q4_0", "Q8_0"},
     false,
     2,
     {{"in-Q4_0.gguf"}, {"in-Q8_0.gguf"}}},
    {"replaced outputs of shards",
     {"--keep-split", "--force", "Q4_0", "Q8_0"},
     {"--keep-split", "--tensor-type", "blk=Q5_0", "Q4_0", "Q8_0"},
     false,
     2,
     {SHARDS_OF("in-Q4_0"), SHARDS_OF("in-Q8_0")}},
    {"joined outputs", {"--force", "Q4_0", "Q8_0"}, {NULL}, true, 2, {{"in-Q4_0.gguf"}, {"in-Q8_0.gguf"}}},
    {"joined shards",
     {"--keep-split", "--force", "Q4_0"},
     {"--keep-split", "--tensor-type", "blk=Q8_0", "Q4_0"},
     true,
     1,
     {SHARDS_OF("in-Q4_0")}},
};

/* gquant with some words, between a few of our own; its exit status. *says: its messages, NULL: shown. */
static int run_under(const char *variable, const char *fault, const char *const *words, const char *to,
                     const char *option, const char *value, char **says) {
    const char *argv[20] = {NULL, "-q", "--out-dir", to};
    size_t n = 4, k = 0;
    for (; words[k] && words[k][0] == '-'; k++) {
        argv[n++] = words[k];
        if (!strcmp(words[k], "--tensor-type")) argv[n++] = words[++k];
    }
    if (option) argv[n++] = option;
    if (value) argv[n++] = value;
    argv[n++] = path("in-00001-of-00003.gguf");
    while (words[k]) argv[n++] = words[k++];
    return run_faulty(argv, variable, fault, says);
}

static int run(const char *const *words, const char *to, const char *option, const char *value, char **says) {
    return run_under(NULL, NULL, words, to, option, value, says);
}

static const char *join_of(const job *j) { return j->parts ? "--join" : NULL; }

static void run_parts(const job *j, const char *to) {
    if (!j->parts) return;
    assert_int_equal(run(j->words, to, "--part", "1/2", NULL), 0);
    assert_int_equal(run(j->words, to, "--part", "2/2", NULL), 0);
}

static int run_job(const job *j, const char *to, char **says) {
    return run(j->words, to, join_of(j), NULL, says);
}

static int run_with_fault(const job *j, const char *to, const char *fault, char **says) {
    return run_under("GQ_FAULT", fault, j->words, to, join_of(j), NULL, says);
}

/* ---- what is there ---- */

static bool same_file(const char *a, const char *b) {
    if (!exists(a) || !exists(b)) return false;
    size_t n, m;
    uint8_t *x = read_whole(a, &n), *y = read_whole(b, &m);
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x), free(y);
    return same;
}

/* How many files of an output are those of a folder. */
static size_t files_as_in(const job *j, size_t set, const char *is, const char *reference) {
    size_t same = 0;
    for (size_t s = 0; s < SHARDS && j->sets[set][s]; s++)
        same += same_file(in_folder(is, j->sets[set][s]), in_folder(reference, j->sets[set][s]));
    return same;
}

static size_t files_of(const job *j, size_t set) {
    size_t n = 0;
    while (n < SHARDS && j->sets[set][n]) n++;
    return n;
}

static bool has_record(const char *in) {
    bool found = false;
    DIR *dir = opendir(in);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) found = found || strstr(d->d_name, ".gquant-names");
    closedir(dir);
    return found;
}

static void copy_folder(const char *from, const char *to) {
    DIR *dir = opendir(from);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        size_t n;
        if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..")) continue;
        uint8_t *bytes = read_whole(in_folder(from, d->d_name), &n);
        write_whole(in_folder(to, d->d_name), bytes, n);
        free(bytes);
    }
    closedir(dir);
}

typedef struct stage {
    const job *job;
    char *old, *new; /* folders of what is there before, and of what has to be there in the end */
} stage;

/* Each set is the old one or the new one as a whole, or nobody can open it and the record is there. */
static void check_sets(const stage *st, const char *in, const char *fault) {
    for (size_t k = 0; k < st->job->n_sets; k++) {
        size_t n = files_of(st->job, k);
        bool first = exists(in_folder(in, st->job->sets[k][0]));
        bool old = files_as_in(st->job, k, in, st->old) == n, new = files_as_in(st->job, k, in, st->new) == n;
        if (first && !old && !new) fail_msg("%s, %s: a mixed set", st->job->name, fault);
        if (!first && st->job->old[0] && !has_record(in))
            fail_msg("%s, %s: the old set is gone and nothing finishes the new", st->job->name, fault);
    }
}

static bool all_new(const stage *st, const char *in) {
    bool all = true;
    for (size_t k = 0; k < st->job->n_sets; k++)
        all = all && files_as_in(st->job, k, in, st->new) == files_of(st->job, k);
    return all;
}

/* One fault in a folder of its own. Returns whether the run was killed, or failed. */
static bool try_fault(const stage *st, const char *fault) {
    char *own = temporary_folder(), *says;
    copy_folder(st->old, own);
    run_parts(st->job, own);
    int status = run_with_fault(st->job, own, fault, &says);
    bool happened = status != 0;
    if (status > 1 && status != 128 + SIGKILL)
        fail_msg("%s, %s: status %d: %s", st->job->name, fault, status, says);
    free(says);
    check_sets(st, own, fault);
    bool finished = all_new(st, own) && !has_record(own);
    if (status == 0 && !all_new(st, own)) fail_msg("%s, %s: not done", st->job->name, fault);
    if (!finished) {
        status = run_job(st->job, own, &says);
        if (status) fail_msg("%s, after %s: status %d: %s", st->job->name, fault, status, says);
        free(says);
        if (!all_new(st, own)) fail_msg("%s, after %s: the new set is not whole", st->job->name, fault);
        if (count_files(own) != count_files(st->new))
            fail_msg("%s, after %s: %zu files are left", st->job->name, fault, count_files(own));
    }
    remove_folder(own);
    return happened;
}

static void prepare(stage *st, const job *j) {
    *st = (stage){.job = j, .old = temporary_folder(), .new = temporary_folder()};
    if (j->old[0]) assert_int_equal(run(j->old, st->old, NULL, NULL, NULL), 0);
    run_parts(j, st->new);
    assert_int_equal(run_under("GQ_FAULT_COUNT", path("counts"), j->words, st->new, join_of(j), NULL, NULL),
                     0);
}

TEST(every_call_may_be_the_last) {
    static const char *const kinds[] = {"rename", "unlink", "fsync", "fdatasync", "flock"};
    static const char *const faults[] = {"kill", "5"};
    long tried = 0, happened = 0;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        stage st;
        prepare(&st, &jobs[i]);
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t f = 0; f < 2; f++)
                for (long n = calls_counted(kinds[k]); n > 0; n--, tried++) {
                    char fault[64];
                    snprintf(fault, sizeof fault, "%s:%ld:%s", kinds[k], n, faults[f]);
                    happened += try_fault(&st, fault);
                }
        remove_folder(st.old), remove_folder(st.new);
    }
    print_message("%ld faults were tried, %ld ended a run\n", tried, happened);
    assert_true(happened > tried / 2);
}

/* ---- how it is finished ---- */

static ino_t inode_of(const char *in, const char *name) {
    struct stat st;
    return stat(in_folder(in, name), &st) == 0 ? st.st_ino : 0;
}

/* The finishing run does no work again, needs no --force for what the killed one has named, and reports what
 * that would have reported. */
TEST(what_is_written_is_not_written_again) {
    static const char *const words[] = {"--keep-split", "Q4_0", NULL};
    char *own = temporary_folder(), *says;
    const job *j = &jobs[0];
    const char *report = path("report.csv"), *wanted = path("wanted.csv");
    assert_int_equal(run(words, own, "--report", wanted, NULL), 0);
    for (int s = 0; s < SHARDS; s++) unlink(in_folder(own, j->sets[0][s]));
    assert_int_equal(run_with_fault(j, own, "rename:3:kill", &says), 128 + SIGKILL);
    free(says);
    ino_t third = inode_of(own, j->sets[0][2]), second = inode_of(own, j->sets[0][1]),
          first = inode_of(own, ".in-Q4_0-00001-of-00003.gguf.gquant");
    assert_true(first && second && third);
    assert_int_equal(run(words, own, "--report", report, &says), 0);
    free(says);
    assert_true(inode_of(own, j->sets[0][0]) == first && inode_of(own, j->sets[0][1]) == second &&
                inode_of(own, j->sets[0][2]) == third);
    assert_same_file(wanted, report);
    assert_int_equal(count_files(own), SHARDS);
    remove_folder(own);
}

TEST(it_is_announced) {
    char *own = temporary_folder(), *says;
    assert_int_equal(run_with_fault(&jobs[0], own, "rename:2:5", &says), 1);
    if (!strstr(says, "the same command continues from there")) fail_msg("%s", says);
    free(says);
    GQUANT_SAYS(0, "gets its name now", "--dry-run", "--keep-split", "--out-dir", own,
                path("in-00001-of-00003.gguf"), "Q4_0");
    GQUANT_SAYS(1, "repeat the command that made them", "--part", "1/2", "--keep-split", "--out-dir", own,
                path("in-00001-of-00003.gguf"), "Q4_0");
    remove_folder(own);
}

/* The command is refused, and says how names are given, but nothing that would lose the files. */
static void says_how_to_finish(const job *j, const char *own, const char *option, const char *value,
                               const char *how) {
    char *says;
    int status = run(j->words, own, option, value, &says);
    if (status != 1 || !strstr(says, how) || strstr(says, "remove") || strstr(says, "nothing to join") ||
        strstr(says, "goes on"))
        fail_msg("%s, %s %s: status %d: %s", j->name, option ? option : "", value ? value : "", status, says);
    free(says);
}

/* A killed run's files only lack their names, and the request is not the one that made them. */
TEST(other_shares_are_told_how_to_finish) {
    static const char whole[] = "repeat the command that made them, in one run and not in parts",
                      joins[] = "joining them finishes it";
    for (size_t parts = 0; parts < 2; parts++) {
        const job *j = &jobs[parts ? JOINED_OUTPUTS : NEW_OUTPUTS];
        const char *how = parts ? joins : whole;
        char *own = temporary_folder(), *says;
        run_parts(j, own);
        assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
        free(says);
        says_how_to_finish(j, own, "--part", "1/2", how);
        says_how_to_finish(j, own, "--part", "1/3", how);
        says_how_to_finish(j, own, parts ? NULL : "--join", NULL, how);
        assert_int_equal(run_job(j, own, NULL), 0);
        assert_int_equal(count_files(own), 2);
        remove_folder(own);
    }
}

/* What a message says to do is done, and the files are made. */
static void run_parts_again(const job *j, const char *own) {
    char *wanted = temporary_folder(), *says;
    run_parts(j, wanted);
    assert_int_equal(run_job(j, wanted, NULL), 0);
    assert_int_equal(unlink(in_folder(own, ".in-Q4_0.gguf.gquant-names")), 0);
    assert_int_equal(run_job(j, own, &says), 1);
    if (!strstr(says, "run all parts again") || strstr(says, "not been started")) fail_msg("%s", says);
    free(says);
    run_parts(j, own);
    assert_int_equal(run_job(j, own, NULL), 0);
    assert_same_file(in_folder(own, "in-Q4_0.gguf"), in_folder(wanted, "in-Q4_0.gguf"));
    assert_same_file(in_folder(own, "in-Q8_0.gguf"), in_folder(wanted, "in-Q8_0.gguf"));
    assert_int_equal(count_files(own), 2);
    remove_folder(wanted);
}

/* All is whole, but one part's journal is of no use any more: at its head, in a slot, or it is gone. */
TEST(a_damaged_journal_of_a_part) {
    const job *j = &jobs[JOINED_OUTPUTS];
    for (int way = 0; way < 3; way++) {
        char *own = temporary_folder(), *says;
        run_parts(j, own);
        assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
        free(says);
        const char *journal = in_folder(own, ".in-Q4_0.gguf.gquant-journal-2-of-2");
        size_t n;
        uint8_t *bytes = read_whole(journal, &n);
        bytes[way ? n - 20 : 20] ^= 1;
        if (way < 2) write_whole(journal, bytes, n);
        if (way == 2) assert_int_equal(unlink(journal), 0);
        free(bytes);
        assert_int_equal(run_job(j, own, &says), 1);
        if (!strstr(says, "to start afresh remove") || !strstr(says, "and run all parts again") ||
            strstr(says, "goes on"))
            fail_msg("way %d: %s", way, says);
        free(says);
        run_parts_again(j, own);
        remove_folder(own);
    }
}

/* Another plan for the same names neither gets the finished files for its own nor leaves the record behind.
 */
TEST(another_plan_starts_afresh) {
    static const char *const other[] = {"--keep-split", "--force", "--tensor-type", "blk=Q8_0", "Q4_0", NULL};
    char *own = temporary_folder(), *wanted = temporary_folder(), *says;
    assert_int_equal(run(other, wanted, NULL, NULL, NULL), 0);
    for (int at = 1; at <= 3; at++) {
        char fault[32];
        snprintf(fault, sizeof fault, "rename:%d:kill", at);
        assert_int_equal(run_with_fault(&jobs[0], own, fault, &says), 128 + SIGKILL);
        free(says);
        assert_int_equal(run(other, own, NULL, NULL, NULL), 0);
        for (int s = 0; s < SHARDS; s++)
            assert_same_file(in_folder(own, jobs[0].sets[0][s]), in_folder(wanted, jobs[0].sets[0][s]));
        assert_int_equal(count_files(own), SHARDS);
        for (int s = 0; s < SHARDS; s++) unlink(in_folder(own, jobs[0].sets[0][s]));
    }
    remove_folder(own), remove_folder(wanted);
}

/* A record that is damaged, or of files that are gone, finishes nothing. */
TEST(records_that_are_not_true) {
    const job *j = &jobs[0];
    char *wanted = temporary_folder(), *says;
    assert_int_equal(run_job(j, wanted, NULL), 0);
    for (int how = 0; how < 3; how++) {
        char *own = temporary_folder();
        assert_int_equal(run_with_fault(j, own, "rename:1:kill", &says), 128 + SIGKILL);
        free(says);
        const char *record = in_folder(own, ".in-Q4_0-00001-of-00003.gguf.gquant-names"),
                   *shard = in_folder(own, ".in-Q4_0-00002-of-00003.gguf.gquant");
        size_t n;
        uint8_t *bytes = read_whole(how ? shard : record, &n);
        bytes[n - 20] ^= 1;
        if (how == 0) write_whole(record, bytes, n);
        if (how == 1) write_whole(shard, bytes, n); /* a file that was changed behind our back */
        if (how == 2) unlink(shard);
        free(bytes);
        assert_int_equal(run_job(j, own, NULL), 0);
        for (int s = 0; s < SHARDS; s++)
            assert_same_file(in_folder(own, j->sets[0][s]), in_folder(wanted, j->sets[0][s]));
        assert_int_equal(count_files(own), SHARDS);
        remove_folder(own);
    }
    remove_folder(wanted);
}

/* Reads of a run that finishes a killed one, or of its plan alone. */
static long reads_of(const job *j, const char *option) {
    char *own = temporary_folder(), *says;
    assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
    free(says);
    assert_int_equal(run_under("GQ_FAULT_COUNT", path("counts"), j->words, own, option, NULL, NULL), 0);
    remove_folder(own);
    return calls_counted("pread");
}

/* Whole files are not written again because one read fails, of the record or whatever is read around it. */
TEST(a_record_that_cannot_be_read_stays) {
    enum { BEFORE = 6 }; /* that many of the plan's reads are tried, too */
    const job *j = &jobs[0];
    long plan_reads = reads_of(j, "--dry-run"), reads = reads_of(j, NULL);
    assert_true(plan_reads > BEFORE && reads > plan_reads);
    for (long n = plan_reads - BEFORE; n <= reads; n++) {
        char *own = temporary_folder(), *says, fault[32];
        snprintf(fault, sizeof fault, "pread:%ld:5", n);
        assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
        free(says);
        const char *hidden = ".in-Q4_0-00002-of-00003.gguf.gquant";
        ino_t inode = inode_of(own, hidden);
        int held = open(in_folder(own, hidden), O_RDONLY); /* no other file gets its number */
        assert_true(inode && held >= 0);
        int status = run_with_fault(j, own, fault, &says);
        if (status != 0 && run_job(j, own, NULL) != 0) fail_msg("%s: %s", fault, says);
        if (inode_of(own, j->sets[0][1]) != inode) fail_msg("%s: written again; %s", fault, says);
        assert_int_equal(count_files(own), SHARDS);
        close(held), free(says);
        remove_folder(own);
    }
}

/* All is whole, but losses are not known any more: what to remove is said, and that helps. */
TEST(a_damaged_journal_of_whole_files) {
    const job *j = &jobs[2];
    char *own = temporary_folder(), *wanted = temporary_folder(), *says;
    assert_int_equal(run_job(j, wanted, NULL), 0);
    assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
    free(says);
    size_t n;
    const char *journal = in_folder(own, ".in-Q4_0.gguf.gquant-journal");
    uint8_t *bytes = read_whole(journal, &n);
    bytes[n - 20] ^= 1;
    write_whole(journal, bytes, n), free(bytes);
    assert_int_equal(run_job(j, own, &says), 1);
    if (!strstr(says, "lacks chunk") || !strstr(says, "to start afresh remove") ||
        strstr(says, "continues from"))
        fail_msg("%s", says);
    free(says);
    assert_int_equal(unlink(in_folder(own, ".in-Q4_0.gguf.gquant-names")), 0);
    unlink(in_folder(own, "in-Q4_0.gguf"));
    assert_int_equal(run_job(j, own, NULL), 0);
    assert_same_file(in_folder(own, "in-Q4_0.gguf"), in_folder(wanted, "in-Q4_0.gguf"));
    assert_same_file(in_folder(own, "in-Q8_0.gguf"), in_folder(wanted, "in-Q8_0.gguf"));
    assert_int_equal(count_files(own), 2);
    remove_folder(own), remove_folder(wanted);
}

/* Somebody else's file under one of the names: nothing of his is replaced, and nothing is lost. */
TEST(a_name_that_is_taken_meanwhile) {
    const job *j = &jobs[2];
    char *own = temporary_folder(), *says;
    assert_int_equal(run_with_fault(j, own, "rename:2:kill", &says), 128 + SIGKILL);
    free(says);
    assert_true(exists(in_folder(own, "in-Q4_0.gguf")));
    write_whole(in_folder(own, "in-Q8_0.gguf"), "theirs", 6);
    assert_int_equal(run_job(j, own, &says), 1);
    if (!strstr(says, "in-Q8_0.gguf already exists with other content")) fail_msg("%s", says);
    free(says);
    unlink(in_folder(own, "in-Q8_0.gguf"));
    assert_int_equal(run_job(j, own, NULL), 0);
    assert_int_equal(count_files(own), 2);
    remove_folder(own);
}

int main(void) { return tests_run(set_up, folder_remove); }
