/* An unfinished run is gone on with: what a plan says of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/command.h"
#include "tests/evaluation_model.h"
#include "tests/folder.h"

enum { TOKENS = 48 };

static int start(void **state) {
    (void)state;
    char ids[8 * TOKENS];
    folder = temporary_folder();
    setenv("GQUANT_SYNC_MS", "600000", 1); /* else how many syncs there are depends on the time */
    model *m = evaluation_model(2);
    model_write(m, path("model.gguf"));
    model_free(m);
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % 512);
    write_whole(path("ids"), ids, strlen(ids));
    return 0;
}

/* ---- what is run ---- */

typedef struct job {
    const char *name;
    const char *words[12]; /* before the text, if any, and the files */
    bool text;
    const char *type;
    const char *kill;      /* when both layers are finished; NULL: its end leaves something to go on with */
    const char *kill_last; /* and when the output matrix is, too */
    const char *finished;  /* what a plan says after either */
} job;

static const job jobs[] = {
    {"calibration",
     {"--threads", "1", "--context", "8", "--calibrate-ids"},
     true,
     "Q4_0",
     "fdatasync:7:kill",
     "fdatasync:9:kill",
     "\n2 of 2 layers are done already\n"},
    {"importance",
     {"imatrix", "compute", "--threads", "1", "--context", "8", "--process-output", "--ids"},
     true,
     NULL,
     "fdatasync:5:kill",
     "fdatasync:6:kill",
     "\n2 layers are done already\n"},
    {"part", {"--threads", "1", "--part", "1/2"}, false, "Q4_0", NULL, NULL, "will be continued"},
};

/* The exit status; *says: all that was printed. */
static int run(const job *j, const char *option, const char *variable, const char *value, char **says) {
    const char *argv[24] = {NULL};
    char *out, *err;
    size_t n = 1;
    for (size_t i = 0; j->words[i]; i++) argv[n++] = j->words[i];
    if (j->text) argv[n++] = path("ids");
    if (option) argv[n++] = option;
    argv[n++] = path("model.gguf"), argv[n++] = path("out"), argv[n++] = j->type;
    if (variable) setenv("LD_PRELOAD", GQ_FAULTS, 1), setenv(variable, value, 1);
    int status = run_command(argv, &out, &err);
    if (variable) unsetenv("LD_PRELOAD"), unsetenv(variable);
    if (asprintf(says, "%s%s", err, out) < 0) abort();
    free(out), free(err);
    return status;
}

/* ---- what it leaves ---- */

static const char *const left[] = {".out.gquant", ".out.gquant-journal", ".out.gquant-journal-1-of-2",
                                   ".out.gquant-states"};
enum { LEFT = sizeof left / sizeof *left };

static void remove_all(void) {
    unlink(path("out"));
    for (size_t i = 0; i < LEFT; i++) unlink(path(left[i]));
}

/* ---- the test ---- */

static void the_output_matrix_is_no_layer(void **state) {
    (void)state;
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

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_output_matrix_is_no_layer),
    };
    return cmocka_run_group_tests(tests, start, folder_remove);
}
