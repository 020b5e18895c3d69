/* Two processes that begin the same output at the same moment: one at most is at work on it, and neither
 * takes the other's files for its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/command.h"
#include "tests/folder.h"

static int set_up(void **state) {
    (void)state;
    folder = temporary_folder();
    model *m = model_llama(1);
    model_write(m, path("in.gguf"));
    model_free(m);
    return 0;
}

static void assert_others(const char *name) {
    size_t n;
    uint8_t *bytes = read_whole(path(name), &n);
    assert_int_equal(n, 5);
    assert_memory_equal(bytes, "other", 5);
    free(bytes);
}

/* Between the making of a file and its lock another process may have locked it, removed it as an unfinished
 * one, and begun its own. */
static void a_file_that_another_process_took_over(void **state) {
    (void)state;
    static const struct {
        const char *fault, *option, *value, *name;
    } cases[] = {
        {"flock:1:other", "-t", "1", ".x.gguf.gquant"},
        {"flock:2:other", "-t", "1", ".y.gguf.gquant"},
        {"flock:3:other", "--part", "1/2", ".x.gguf.gquant-journal-1-of-2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("LD_PRELOAD", GQ_FAULTS, 1), setenv("GQ_FAULT", cases[i].fault, 1);
        char *err = gquant(1, (const char *const[]){cases[i].option, cases[i].value, path("in.gguf"),
                                                    path("x.gguf=Q8_0"), path("y.gguf=Q4_0"), NULL});
        unsetenv("LD_PRELOAD"), unsetenv("GQ_FAULT");
        if (!strstr(err, "another process")) fail_msg("%s", err);
        free(err);
        assert_others(cases[i].name);
        assert_int_equal(count_files(folder), 2);
        assert_int_equal(remove(path(cases[i].name)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_another_process_took_over),
    };
    return cmocka_run_group_tests(tests, set_up, folder_remove);
}
