/* No run is lost: interrupted, killed, shared between processes, it ends in the same bytes. */
#include "tests/runs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder;
static const char *path(const char *name) { return in_folder(folder, name); }

/* Some forty chunks, few of them small. */
static int set_up(void **state) {
    (void)state;
    char name[64];
    folder = temporary_folder();
    model *m = model_new("llama", 10);
    for (int b = 0; b < 10; b++) {
        snprintf(name, sizeof name, "blk.%d.ffn_up.weight", b);
        model_add(m, name, GGUF_F16, (uint64_t[4]){1024, 3100}, NULL);
        snprintf(name, sizeof name, "blk.%d.ffn_norm.weight", b);
        model_add(m, name, GGUF_F32, (uint64_t[4]){1023}, NULL);
    }
    model_write(m, path("in.gguf"));
    model_free(m);
    setenv("GQUANT_SYNC_MS", "1", 1);
    quantize(path("in.gguf"), path("wanted.gguf"), "Q4_K_S", 2);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    remove_folder(folder);
    return 0;
}

static gq_options options_for(const gq_output *out) {
    return (gq_options){
        .input = path("in.gguf"), .outputs = out, .n_outputs = 1, .threads = 2, .effort = GQ_EFFORT_DEFAULT};
}

/* ---- stopping ---- */

static void interrupted_runs_go_on(void **state) {
    (void)state;
    gq_output out = {path("interrupted.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper first = {.after = 5}, second = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    assert_non_null(strstr(e.text, "goes on from there"));
    assert_false(exists(out.path));
    assert_true(announced(&o, "will be continued"));
    assert_int_equal(run_some(&o, &second, &e), GQ_INTERRUPTED);
    assert_true(second.resumed > 0);
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed >= second.resumed && last.resumed < last.total && last.done == last.total);
    const gq_progress *p = &last.last; /* weights of F16 and F32, two to four bytes each */
    assert_true(p->weights_resumed >= p->bytes_resumed / 4 && p->weights_resumed <= p->bytes_resumed / 2);
    assert_true(p->weights_resumed < p->weights_done);
    assert_true(p->seconds_resumed > 0 && p->seconds_resumed < p->seconds);
    assert_same_file(path("wanted.gguf"), out.path);
}

static void numbers_survive_an_interruption(void **state) {
    (void)state;
    gq_output whole = {path("whole.gguf"), "Q4_K_S"}, out = {path("pieces.gguf"), "Q4_K_S"};
    gq_options o = options_for(&whole);
    gq_plan *a = run_plan(&o);
    o.outputs = &out;
    stopper s = {.after = 17};
    gq_error e;
    size_t n;
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    gq_plan *b = run_plan(&o);
    gq_plan_tensors(a, 0, &n);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(gq_plan_loss(a, 0, i), gq_plan_loss(b, 0, i), sizeof(gq_loss));
    gq_plan_free(a), gq_plan_free(b);
}

/* What the journal promises is looked at before it is believed. */
static void damaged_chunks_are_done_again(void **state) {
    (void)state;
    gq_output out = {path("damaged.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper s = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    int fd = open(path(".damaged.gguf.gquant"), O_RDWR);
    assert_true(fd >= 0);
    for (off_t at = 3000; at < 3000000; at += 100000) assert_int_equal(pwrite(fd, "wrong", 5, at), 5);
    close(fd);
    fd = open(path(".damaged.gguf.gquant-journal"), O_RDWR);
    assert_int_equal(pwrite(fd, "wrong", 5, 400), 5);
    close(fd);
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_same_file(path("wanted.gguf"), out.path);
}

static void other_plans_start_afresh(void **state) {
    (void)state;
    gq_output out = {path("other.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper s = {.after = 20}, fresh = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    o.effort = GQ_EFFORT_FAST;
    assert_true(announced(&o, "options"));
    assert_int_equal(run_some(&o, &fresh, &e), GQ_INTERRUPTED);
    assert_int_equal(fresh.resumed, 0);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000}};
    struct stat st;
    assert_int_equal(stat(o.input, &st), 0);
    assert_int_equal(utimensat(AT_FDCWD, o.input, times, 0), 0);
    o.effort = GQ_EFFORT_DEFAULT;
    assert_true(announced(&o, "input"));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_int_equal(last.resumed, 0);
    assert_same_file(path("wanted.gguf"), out.path);
    times[1] = st.st_mtim;
    assert_int_equal(utimensat(AT_FDCWD, o.input, times, 0), 0);
}

static void two_runs_do_not_meet(void **state) {
    (void)state;
    gq_output out = {path("meet.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper s = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    int fd = open(path(".meet.gguf.gquant"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_non_null(strstr(failure(&o), "another process"));
    close(fd);
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_true(last.resumed > 0);
    assert_same_file(path("wanted.gguf"), out.path);
}

/* A name that can be foretold must not lead anywhere else. */
static void planted_files_are_not_written(void **state) {
    (void)state;
    gq_output out = {path("planted.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    write_whole(path("victim"), "precious", 8);
    assert_int_equal(symlink("victim", path(".planted.gguf.gquant")), 0);
    assert_non_null(strstr(failure(&o), "in the way"));
    assert_int_equal(unlink(path(".planted.gguf.gquant")), 0);
    assert_int_equal(link(path("victim"), path(".planted.gguf.gquant")), 0);
    assert_non_null(strstr(failure(&o), "in the way"));
    assert_int_equal(unlink(path(".planted.gguf.gquant")), 0);
    assert_int_equal(symlink("victim", path(".planted.gguf.gquant-journal")), 0);
    assert_non_null(strstr(failure(&o), "journal"));
    assert_int_equal(unlink(path(".planted.gguf.gquant-journal")), 0);
    size_t n;
    uint8_t *bytes = read_whole(path("victim"), &n);
    assert_int_equal(n, 8);
    assert_memory_equal(bytes, "precious", 8);
    free(bytes);
}

/* ---- killing ---- */

/* Start a run in a process of its own, which begins as the command does. */
static pid_t start(const gq_options *o) {
    char part[32];
    snprintf(part, sizeof part, "%u/%u", o->part, o->parts);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_resume", o->input, o->outputs[0].path, part, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* What such a process does. */
static int run_as_asked(char **arguments) {
    gq_output out = {arguments[2], "Q4_K_S"};
    gq_options o = {
        .input = arguments[1], .outputs = &out, .n_outputs = 1, .threads = 2, .effort = GQ_EFFORT_DEFAULT};
    if (sscanf(arguments[3], "%u/%u", &o.part, &o.parts) != 2) return 2;
    gq_plan *plan = gq_plan_new(&o, NULL);
    bool done = plan && gq_run(plan, NULL, NULL);
    gq_plan_free(plan);
    return !done;
}

/* Whether it ended by itself before `us` microseconds (0: any time) were over. */
static bool run_and_kill(const gq_options *o, unsigned us) {
    pid_t pid = start(o);
    if (us) {
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
        kill(pid, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void killed_runs_go_on(void **state) {
    (void)state;
    const char *asked = getenv("GQUANT_TEST_KILLS");
    unsigned kills = asked ? (unsigned)atoi(asked) : 12, killed = 0, resumed = 0;
    uint64_t seed = 12345;
    /* How long a run takes here and now: the moments cover all of it. */
    gq_output whole = {path("timed.gguf"), "Q4_K_S"};
    gq_options timed = options_for(&whole);
    struct timespec begun, ended_at;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    assert_true(run_and_kill(&timed, 0));
    clock_gettime(CLOCK_MONOTONIC, &ended_at);
    unsigned us =
        (unsigned)((ended_at.tv_sec - begun.tv_sec) * 1000000 + (ended_at.tv_nsec - begun.tv_nsec) / 1000);
    for (unsigned k = 0; killed < kills; k++) {
        char name[32];
        snprintf(name, sizeof name, "killed-%u.gguf", k % 4);
        gq_output out = {path(name), "Q4_K_S"};
        gq_options o = options_for(&out);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bool ended = run_and_kill(&o, 1 + (unsigned)((seed >> 33) % us));
        killed += !ended;
        if (ended) us -= us / 8; /* the moment lay behind the end: runs are faster than the first one was */
        if (!exists(out.path)) { /* else it was killed behind the last rename */
            assert_false(ended);
            resumed++;
            assert_true(run_and_kill(&o, 0));
        }
        assert_same_file(path("wanted.gguf"), out.path);
        assert_int_equal(unlink(out.path), 0);
    }
    print_message("%u killed, %u of them before their output was whole\n", killed, resumed);
}

/* ---- parts ---- */

static void parts_make_the_whole(void **state) {
    (void)state;
    gq_output out = {path("parts.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    pid_t pids[4];
    o.join = true;
    assert_non_null(strstr(failure(&o), "nothing to join"));
    o.join = false, o.parts = 4;
    write_whole(path(".parts.gguf.gquant"), "short", 5); /* as it is while its space is being set aside */
    for (uint32_t k = 0; k < 4; k++) {
        o.part = k + 1;
        pids[k] = start(&o);
    }
    nanosleep(&(struct timespec){0, 30000000}, NULL);
    kill(pids[2], SIGKILL);
    for (int k = 0; k < 4; k++) {
        int status;
        waitpid(pids[k], &status, 0);
        if (k != 2) assert_int_equal(status, 0);
    }
    gq_error e;
    stopper last = {.after = 0};
    o.part = 3;
    assert_int_equal(run_some(&o, &last, &e), GQ_OK); /* the killed one again */
    assert_false(exists(out.path));
    o.part = 0, o.parts = 0;
    assert_non_null(strstr(failure(&o), "has been begun in 4 parts"));
    o.join = true;
    gq_plan *joined = run_plan(&o), *whole;
    assert_same_file(path("wanted.gguf"), out.path);
    gq_output single = {path("single.gguf"), "Q4_K_S"};
    o.join = false, o.outputs = &single;
    whole = run_plan(&o);
    size_t n;
    gq_plan_tensors(whole, 0, &n);
    for (size_t i = 0; i < n; i++)
        assert_memory_equal(gq_plan_loss(whole, 0, i), gq_plan_loss(joined, 0, i), sizeof(gq_loss));
    gq_plan_free(joined), gq_plan_free(whole);
}

static void missing_parts_are_named(void **state) {
    (void)state;
    gq_output out = {path("missing.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper all = {.after = 0}, few = {.after = 3};
    o.parts = 3, o.part = 1;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    o.part = 3;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    gq_options join = options_for(&out);
    join.join = true;
    assert_non_null(strstr(failure(&join), "part 2 of 3 has not been started"));
    o.part = 2;
    assert_int_equal(run_some(&o, &few, &e), GQ_INTERRUPTED);
    assert_non_null(strstr(failure(&join), "part 2 of 3 is not finished"));
    assert_false(exists(out.path));
    /* A byte that went wrong in part 1. */
    int fd = open(path(".missing.gguf.gquant"), O_RDWR);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, 5000), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 5000), 1);
    close(fd);
    o.part = 2;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    assert_non_null(strstr(failure(&join), "part 1 of 3 is not finished: 1 of"));
    o.part = 1;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    gq_plan_free(run_plan(&join));
    assert_same_file(path("wanted.gguf"), out.path);
    assert_false(exists(path(".missing.gguf.gquant")));
    assert_false(exists(path(".missing.gguf.gquant-journal-1-of-3")));
}

/* Names that are nearly those of journals, and numbers that would need all memory. */
static void odd_journals_are_nobodys(void **state) {
    (void)state;
    static const char *const odd[] = {"0-of-0",  "0-of-2",        "3-of-2",         "1-of-2x",
                                      "1-of--2", "1-of-99999999", "1-of-4294967298"};
    enum { ODD = sizeof odd / sizeof *odd };
    gq_output out = {path("odd.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out), join = o;
    char name[64];
    for (size_t i = 0; i < ODD; i++) {
        snprintf(name, sizeof name, ".odd.gguf.gquant-journal-%s", odd[i]);
        write_whole(path(name), "", 0);
    }
    gq_plan_free(run_plan(&o));
    assert_same_file(path("wanted.gguf"), out.path);
    unlink(out.path);
    for (size_t i = 0; i < ODD; i++) {
        snprintf(name, sizeof name, ".odd.gguf.gquant-journal-%s", odd[i]);
        assert_int_equal(unlink(path(name)), 0);
    }
    gq_error e;
    stopper all = {.after = 0};
    o.parts = 2, o.part = 1;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    assert_int_equal(
        rename(path(".odd.gguf.gquant-journal-1-of-2"), path(".odd.gguf.gquant-journal-1-of-1000000")), 0);
    join.join = true;
    assert_non_null(strstr(failure(&join), "part 1 of 1000000"));
    unlink(path(".odd.gguf.gquant-journal-1-of-1000000")), unlink(path(".odd.gguf.gquant"));
}

/* A part may clear up only what no other part has worked on. */
static void parts_that_fail(void **state) {
    (void)state;
    char *own = temporary_folder();
    float *x = random_values(1024 * 1024, 1);
    memset(x, 0xff, 4); /* NaN */
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_k.weight", GGUF_F32, (uint64_t[4]){1024, 1024}, x);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){1024, 1024}, NULL);
    model_write(m, in_folder(own, "bad.gguf"));
    model_free(m);
    free(x);
    gq_output out = {in_folder(own, "out.gguf"), "Q4_K_S"};
    gq_options first = options_for(&out), second;
    first.input = in_folder(own, "bad.gguf");
    first.parts = 2, first.part = 1;
    second = first, second.part = 2;
    assert_non_null(strstr(failure(&first), "element 0"));
    assert_int_equal(count_files(own), 1);
    gq_plan_free(run_plan(&second));
    assert_non_null(strstr(failure(&first), "element 0"));
    assert_true(exists(in_folder(own, ".out.gguf.gquant")));
    assert_true(exists(in_folder(own, ".out.gguf.gquant-journal-2-of-2")));
    assert_false(exists(in_folder(own, ".out.gguf.gquant-journal-1-of-2")));
    int fd = open(in_folder(own, ".out.gguf.gquant-journal-2-of-2"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_non_null(strstr(failure(&second), "another process"));
    close(fd);
    assert_true(exists(in_folder(own, ".out.gguf.gquant-journal-2-of-2")));
    remove_folder(own);
}

/* A mistake on one machine must not cost the others their work. */
static void parts_of_another_plan_are_left_alone(void **state) {
    (void)state;
    gq_output out = {path("mixed.gguf"), "Q4_K_S"}, smaller = {out.path, "Q2_K"};
    gq_options o = options_for(&out), other = options_for(&smaller);
    gq_error e;
    stopper all = {.after = 0};
    o.parts = 2, o.part = 1;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    other.parts = 2, other.part = 2;
    assert_non_null(strstr(failure(&other), "part 1 of 2"));
    assert_non_null(strstr(failure(&other), "its options were other ones"));
    other.outputs = &out, other.effort = GQ_EFFORT_FAST; /* of the same size */
    assert_non_null(strstr(failure(&other), "its options were other ones"));
    other.effort = o.effort, other.parts = 3;
    assert_non_null(strstr(failure(&other), "another number of parts"));
    other.parts = other.part = 0, other.join = true, other.outputs = &smaller;
    assert_non_null(strstr(failure(&other), "its options were other ones"));
    write_whole(path(".mixed.gguf.gquant-journal-2-of-2"), "torn", 4); /* nobody's yet */
    o.part = 2;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    other.outputs = &out;
    gq_plan_free(run_plan(&other));
    assert_same_file(path("wanted.gguf"), out.path);
}

static void touch_input(void *user, const gq_progress *p) {
    (void)p;
    assert_int_equal(utimensat(AT_FDCWD, user, NULL, 0), 0);
}

static void an_input_that_changes_is_refused(void **state) {
    (void)state;
    char *own = temporary_folder(), input[4096];
    snprintf(input, sizeof input, "%s/in.gguf", own);
    model *m = model_llama(1);
    model_write(m, input);
    model_free(m);
    gq_output out = {in_folder(own, "out.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    o.input = input;
    gq_callbacks callbacks = {input, touch_input, NULL, NULL};
    gq_error e;
    gq_plan *plan = gq_plan_new(&o, &e);
    assert_non_null(plan);
    assert_false(gq_run(plan, &callbacks, &e));
    assert_non_null(strstr(e.text, "changed"));
    gq_plan_free(plan);
    assert_int_equal(count_files(own), 1);
    remove_folder(own);
}

static void more_parts_than_chunks(void **state) {
    (void)state;
    gq_output out = {path("many.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper all = {.after = 0};
    o.parts = 70;
    for (o.part = 70; o.part > 0; o.part--) assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    o.join = true;
    gq_plan_free(run_plan(&o));
    assert_same_file(path("wanted.gguf"), out.path);
}

/* ---- shards ---- */

static void assert_same_tensors(const char *a, const char *b) {
    gguf_model x = open_model(a), y = open_model(b);
    assert_int_equal(x.n_tensors, y.n_tensors);
    for (uint64_t i = 0; i < x.n_tensors; i++) {
        uint64_t n, m;
        uint8_t *p = tensor_bytes(&x, x.tensors[i]->name, &n), *q = tensor_bytes(&y, x.tensors[i]->name, &m);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, n);
        free(p), free(q);
    }
    gguf_model_close(&x), gguf_model_close(&y);
}

static void outputs_are_split_and_kept_split(void **state) {
    (void)state;
    char name[64];
    gq_output out = {path("split.gguf"), "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper some = {.after = 20}, all = {.after = 0};
    o.split_max_size = 5000000;
    assert_int_equal(run_some(&o, &some, &e), GQ_INTERRUPTED);
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    assert_true(all.resumed > 0);
    gguf_model split = open_model(path("split-00001-of-00005.gguf"));
    assert_int_equal(split.n_shards, 5);
    for (uint32_t s = 0; s < 5; s++) assert_true(split.shards[s].file.size <= 5000000);
    assert_int_equal(split.shards[1].n_kv, 4);
    gguf_model_close(&split);
    assert_same_tensors(path("wanted.gguf"), path("split-00001-of-00005.gguf"));
    gq_output kept = {path("kept.gguf"), "COPY"};
    o = options_for(&kept);
    o.input = path("split-00003-of-00005.gguf");
    o.keep_split = true;
    gq_plan_free(run_plan(&o));
    for (int s = 1; s <= 5; s++) {
        snprintf(name, sizeof name, "kept-0000%d-of-00005.gguf", s);
        assert_true(exists(path(name)));
    }
    assert_same_tensors(path("wanted.gguf"), path("kept-00001-of-00005.gguf"));
    gq_output merged = {path("merged.gguf"), "COPY"};
    o.keep_split = false, o.outputs = &merged;
    gq_plan_free(run_plan(&o));
    assert_same_file(path("wanted.gguf"), merged.path);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_as_asked(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interrupted_runs_go_on),
        cmocka_unit_test(numbers_survive_an_interruption),
        cmocka_unit_test(damaged_chunks_are_done_again),
        cmocka_unit_test(other_plans_start_afresh),
        cmocka_unit_test(two_runs_do_not_meet),
        cmocka_unit_test(planted_files_are_not_written),
        cmocka_unit_test(killed_runs_go_on),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(missing_parts_are_named),
        cmocka_unit_test(odd_journals_are_nobodys),
        cmocka_unit_test(parts_that_fail),
        cmocka_unit_test(parts_of_another_plan_are_left_alone),
        cmocka_unit_test(an_input_that_changes_is_refused),
        cmocka_unit_test(more_parts_than_chunks),
        cmocka_unit_test(outputs_are_split_and_kept_split),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
