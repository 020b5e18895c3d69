/* No run is lost: interrupted or killed, it ends in the same bytes. */
#include "tests/support/wanted.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- stopping ---- */

TEST(interrupted_runs_go_on) {
    gq_output out = {.path = path("interrupted.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper first = {.after = 5}, second = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &first, &e), GQ_INTERRUPTED);
    assert_non_null(strstr(e.text, "continues from there"));
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

/* What is said of an earlier run is what happens: where its output is gone there is nothing to go on with. */
TEST(continuing_is_only_promised_where_it_can_be) {
    gq_output out = {.path = path("promised.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper s = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    assert_true(announced(&o, "will be continued"));
    assert_int_equal(truncate(path(".promised.gguf.gquant"), 1000), 0);
    assert_false(announced(&o, "will be continued"));
    assert_true(announced(&o, "starts afresh: what it had written"));
    unlink(path(".promised.gguf.gquant"));
    assert_false(announced(&o, "will be continued"));
    assert_true(announced(&o, "starts afresh: "));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_int_equal(last.resumed, 0);
    assert_same_file(path("wanted.gguf"), out.path);
}

/* A journal without a chunk in it. */
TEST(nothing_finished_is_nothing_to_go_on_with) {
    gq_output out = {.path = path("barely.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper s = {.after = 20}, last = {.after = 0};
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    assert_int_equal(truncate(path(".barely.gguf.gquant-journal"), 100), 0);
    assert_false(announced(&o, "will be continued"));
    assert_int_equal(run_some(&o, &last, &e), GQ_OK);
    assert_int_equal(last.resumed, 0);
}

static void remove_output(void *user, const gq_progress *p) {
    (void)p;
    unlink(user);
}

/* What is gone is not called kept. */
TEST(a_lost_output_is_not_called_kept) {
    gq_output out = {.path = path("gone.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_callbacks callbacks = {sizeof callbacks, (void *)path(".gone.gguf.gquant"), remove_output, NULL, NULL};
    gq_error e;
    size_t files = count_files(folder);
    gq_plan *plan = must_plan(&o);
    assert_false(gq_run(plan, &callbacks, NULL, &e));
    gq_plan_free(plan);
    assert_non_null(strstr(e.text, "removed or replaced while it was written"));
    assert_null(strstr(e.text, "is kept"));
    assert_int_equal(count_files(folder), files);
}

TEST(numbers_survive_an_interruption) {
    gq_output whole = {.path = path("whole.gguf"), .filetype = "Q4_K_S"},
              out = {.path = path("pieces.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&whole);
    gq_results *a = run_plan(&o);
    o.outputs = &out;
    stopper s = {.after = 17};
    gq_error e;
    assert_int_equal(run_some(&o, &s, &e), GQ_INTERRUPTED);
    gq_results *b = run_plan(&o);
    assert_same_losses(a, 0, b, 0);
    gq_results_free(a), gq_results_free(b);
}

/* Nothing of a run goes into the plan, so another run of it goes on; and of what was stopped the results hold
 * whole tensors alone. */
TEST(a_plan_outlives_its_run) {
    gq_output whole = {.path = path("one-run.gguf"), .filetype = "Q4_K_S"},
              out = {.path = path("two-runs.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&whole);
    gq_results *wanted = run_plan(&o), *found;
    stopper s = {.after = 9};
    gq_callbacks callbacks = stopper_callbacks(&s);
    gq_error e;
    size_t n, n_done = 0;
    o.outputs = &out;
    gq_plan *plan = must_plan(&o);
    assert_false(gq_run(plan, &callbacks, &found, &e));
    assert_int_equal(e.status, GQ_INTERRUPTED);
    const gq_loss *all = gq_results_losses(wanted, 0, &n), *some = gq_results_losses(found, 0, &n);
    for (size_t i = 0; i < n; i++) {
        bool done = some[i].crc32 != 0;
        n_done += done;
        assert_memory_equal(&some[i], done ? &all[i] : &(gq_loss){.n = 0}, sizeof *some);
    }
    assert_true(n_done > 0 && n_done < n);
    const gq_progress *p = gq_results_progress(found);
    assert_int_equal(p->bytes_done, s.last.bytes_done);
    assert_true(p->bytes_done > 0 && p->bytes_done < p->bytes_total);
    assert_true(p->seconds >= s.last.seconds && !p->tensor && p->bytes_resumed == 0);
    gq_results_free(found);
    found = must_run(plan);
    p = gq_results_progress(found);
    assert_true(p->bytes_resumed > 0 && p->bytes_done == p->bytes_total);
    gq_plan_free(plan);
    assert_same_losses(wanted, 0, found, 0);
    assert_same_file(whole.path, out.path);
    gq_results_free(wanted), gq_results_free(found);
}

/* What the journal promises is looked at before it is believed. */
TEST(damaged_chunks_are_done_again) {
    gq_output out = {.path = path("damaged.gguf"), .filetype = "Q4_K_S"};
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

TEST(other_plans_start_afresh) {
    gq_output out = {.path = path("other.gguf"), .filetype = "Q4_K_S"};
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

TEST(two_runs_do_not_meet) {
    gq_output out = {.path = path("meet.gguf"), .filetype = "Q4_K_S"};
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
TEST(planted_files_are_not_written) {
    gq_output out = {.path = path("planted.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    write_whole(path("victim"), "precious", 8);
    assert_int_equal(symlink("victim", path(".planted.gguf.gquant")), 0);
    assert_non_null(strstr(failure(&o), "not left by an earlier run"));
    assert_int_equal(unlink(path(".planted.gguf.gquant")), 0);
    assert_int_equal(link(path("victim"), path(".planted.gguf.gquant")), 0);
    assert_non_null(strstr(failure(&o), "not left by an earlier run"));
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

static void touch_input(void *user, const gq_progress *p) {
    (void)p;
    assert_int_equal(utimensat(AT_FDCWD, user, NULL, 0), 0);
}

TEST(an_input_that_changes_is_refused) {
    char *own = temporary_folder(), input[4096];
    snprintf(input, sizeof input, "%s/in.gguf", own);
    model_save(model_llama(1), input);
    gq_output out = {.path = in_folder(own, "out.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    o.input = input;
    gq_callbacks callbacks = {sizeof callbacks, input, touch_input, NULL, NULL};
    gq_error e;
    gq_plan *plan = gq_plan_new(&o, &e);
    assert_non_null(plan);
    assert_false(gq_run(plan, &callbacks, NULL, &e));
    assert_non_null(strstr(e.text, "changed"));
    gq_plan_free(plan);
    assert_int_equal(count_files(own), 1);
    remove_folder(own);
}

/* ---- killing ---- */

/* Whether it ended by itself before `us` microseconds (0: any time) were over. */
static bool run_and_kill(const gq_options *o, unsigned us) {
    pid_t pid = start_run(o);
    if (us) {
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
        kill(pid, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

TEST(killed_runs_go_on) {
    const char *asked = getenv("GQUANT_TEST_KILLS");
    unsigned kills = asked ? (unsigned)atoi(asked) : 12, killed = 0, resumed = 0;
    uint64_t seed = 12345;
    /* How long a run takes here and now: the moments cover all of it. */
    gq_output whole = {.path = path("timed.gguf"), .filetype = "Q4_K_S"};
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
        gq_output out = {.path = path(name), .filetype = "Q4_K_S"};
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

/* ---- shards ---- */

static void assert_same_tensors(const char *a, const char *b) {
    model_source x = open_model(a), y = open_model(b);
    assert_int_equal(x.n_tensors, y.n_tensors);
    for (uint64_t i = 0; i < x.n_tensors; i++) {
        uint64_t n, m;
        uint8_t *p = tensor_bytes(&x, x.tensors[i]->name, &n), *q = tensor_bytes(&y, x.tensors[i]->name, &m);
        assert_int_equal(n, m);
        assert_memory_equal(p, q, n);
        free(p), free(q);
    }
    model_close(&x), model_close(&y);
}

TEST(outputs_are_split_and_kept_split) {
    char name[64];
    gq_output out = {.path = path("split.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper some = {.after = 20}, all = {.after = 0};
    o.split_max_size = 5000000;
    assert_int_equal(run_some(&o, &some, &e), GQ_INTERRUPTED);
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    assert_true(all.resumed > 0);
    model_source split = open_model(path("split-00001-of-00005.gguf"));
    assert_int_equal(gguf_container_of(&split)->n_shards, 5);
    for (uint32_t s = 0; s < 5; s++) assert_true(gguf_container_of(&split)->shards[s].file.size <= 5000000);
    assert_int_equal(gguf_container_of(&split)->shards[1].n_kv, 4);
    model_close(&split);
    assert_same_tensors(path("wanted.gguf"), path("split-00001-of-00005.gguf"));
    gq_output kept = {.path = path("kept.gguf"), .filetype = "COPY"};
    o = options_for(&kept);
    o.input = path("split-00003-of-00005.gguf");
    o.keep_split = true;
    gq_results_free(run_plan(&o));
    for (int s = 1; s <= 5; s++) {
        snprintf(name, sizeof name, "kept-0000%d-of-00005.gguf", s);
        assert_true(exists(path(name)));
    }
    assert_same_tensors(path("wanted.gguf"), path("kept-00001-of-00005.gguf"));
    gq_output merged = {.path = path("merged.gguf"), .filetype = "COPY"};
    o.keep_split = false, o.outputs = &merged;
    gq_results_free(run_plan(&o));
    assert_same_file(path("wanted.gguf"), merged.path);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_as_asked(argv);
    return tests_run(set_up, folder_remove);
}
