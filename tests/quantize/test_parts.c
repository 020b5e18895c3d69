/* Work shared between processes ends in the same bytes, whichever of them fails, is killed or is missing. */
#include "tests/support/wanted.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>

TEST(parts_make_the_whole) {
    gq_output out = {.path = path("parts.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    pid_t pids[4];
    o.join = true;
    assert_non_null(strstr(failure(&o), "nothing to join"));
    o.join = false, o.parts = 4;
    write_whole(path(".parts.gguf.gquant"), "short", 5); /* as it is while its space is being set aside */
    for (uint32_t k = 0; k < 4; k++) {
        o.part = k + 1;
        pids[k] = start_run(&o);
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
    assert_non_null(strstr(failure(&o), "was started in 4 parts"));
    o.join = true;
    gq_results *joined = run_plan(&o), *whole;
    assert_same_file(path("wanted.gguf"), out.path);
    gq_output single = {.path = path("single.gguf"), .filetype = "Q4_K_S"};
    o.join = false, o.outputs = &single;
    whole = run_plan(&o);
    assert_same_losses(whole, 0, joined, 0);
    gq_results_free(joined), gq_results_free(whole);
}

TEST(missing_parts_are_named) {
    gq_output out = {.path = path("missing.gguf"), .filetype = "Q4_K_S"};
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
    gq_results_free(run_plan(&join));
    assert_same_file(path("wanted.gguf"), out.path);
    assert_false(exists(path(".missing.gguf.gquant")));
    assert_false(exists(path(".missing.gguf.gquant-journal-1-of-3")));
}

/* Names that are nearly those of journals, and numbers that would need all memory. */
TEST(odd_journals_are_nobodys) {
    static const char *const odd[] = {"0-of-0",  "0-of-2",        "3-of-2",         "1-of-2x",
                                      "1-of--2", "1-of-99999999", "1-of-4294967298"};
    enum { ODD = sizeof odd / sizeof *odd };
    gq_output out = {.path = path("odd.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out), join = o;
    char name[64];
    for (size_t i = 0; i < ODD; i++) {
        snprintf(name, sizeof name, ".odd.gguf.gquant-journal-%s", odd[i]);
        write_whole(path(name), "", 0);
    }
    gq_results_free(run_plan(&o));
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
TEST(parts_that_fail) {
    char *own = temporary_folder();
    float *x = random_values(1024 * 1024, 1);
    memset(x, 0xff, 4); /* NaN */
    model *m = model_new("llama", 1);
    model_add(m, "blk.0.attn_k.weight", GGUF_F32, (uint64_t[4]){1024, 1024}, x);
    model_add(m, "blk.0.attn_q.weight", GGUF_F16, (uint64_t[4]){1024, 1024}, NULL);
    model_save(m, in_folder(own, "bad.gguf"));
    free(x);
    gq_output out = {.path = in_folder(own, "out.gguf"), .filetype = "Q4_K_S"};
    gq_options first = options_for(&out), second;
    first.input = in_folder(own, "bad.gguf");
    first.parts = 2, first.part = 1;
    second = first, second.part = 2;
    assert_non_null(strstr(failure(&first), "element 0"));
    assert_int_equal(count_files(own), 1);
    gq_results_free(run_plan(&second));
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
TEST(parts_of_another_plan_are_left_alone) {
    gq_output out = {.path = path("mixed.gguf"), .filetype = "Q4_K_S"},
              smaller = {.path = out.path, .filetype = "Q2_K"};
    gq_options o = options_for(&out), other = options_for(&smaller);
    gq_error e;
    stopper all = {.after = 0};
    o.parts = 2, o.part = 1;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    other.parts = 2, other.part = 2;
    assert_non_null(strstr(failure(&other), "part 1 of 2"));
    assert_non_null(strstr(failure(&other), "its options were different"));
    other.outputs = &out, other.effort = GQ_EFFORT_FAST; /* of the same size */
    assert_non_null(strstr(failure(&other), "its options were different"));
    other.effort = o.effort, other.parts = 3;
    assert_non_null(strstr(failure(&other), "another number of parts"));
    other.parts = other.part = 0, other.join = true, other.outputs = &smaller;
    assert_non_null(strstr(failure(&other), "its options were different"));
    write_whole(path(".mixed.gguf.gquant-journal-2-of-2"), "torn", 4); /* nobody's yet */
    o.part = 2;
    assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    other.outputs = &out;
    gq_results_free(run_plan(&other));
    assert_same_file(path("wanted.gguf"), out.path);
}

TEST(more_parts_than_chunks) {
    gq_output out = {.path = path("many.gguf"), .filetype = "Q4_K_S"};
    gq_options o = options_for(&out);
    gq_error e;
    stopper all = {.after = 0};
    o.parts = 70;
    for (o.part = 70; o.part > 0; o.part--) assert_int_equal(run_some(&o, &all, &e), GQ_OK);
    o.join = true;
    gq_results_free(run_plan(&o));
    assert_same_file(path("wanted.gguf"), out.path);
}

int main(int argc, char **argv) {
    if (argc == 4) return run_as_asked(argv);
    return tests_run(set_up, folder_remove);
}
