/* --arithmetic bf16 from one end to the other: files that were calibrated and importance data that were
 * computed in it depend on neither threads, memory nor kills, and are not those of float32. (Instruction
 * sets: tests/study/test_calibrate.c.) */
#include <limits.h>
#include <signal.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/runs.h"

enum { VOCABULARY = 512, CONTEXT = 24, TOKENS = CONTEXT * 12 };

static char ids[8 * TOKENS], in[PATH_MAX];

FIXTURE(start) {
    folder = temporary_folder();
    snprintf(in, sizeof in, "%s", path("experts.gguf"));
    model_save(expert_model(), in);
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

/* ---- both kinds of run, as one ---- */

typedef struct job {
    bool importance; /* else a calibration */
    const char *out, *arithmetic;
    int threads;
    uint64_t memory;
    size_t at; /* it is killed when it asks so often whether to go on; 0: never */
} job;

static bool reached(void *user) {
    size_t *left = user;
    if (*left && --*left == 0) raise(SIGKILL);
    return false;
}

static gq_text the_text(void) {
    return (gq_text){.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT};
}

static gq_plan *plan_calibration_of(const job *j, gq_error *e) {
    gq_output out = {.path = path(j->out), .filetype = "Q4_K_S"};
    gq_calibration c = {
        .size = sizeof c, .text = the_text(), .memory = j->memory, .arithmetic = j->arithmetic};
    gq_options options = {.size = sizeof options,
                          .input = in,
                          .outputs = &out,
                          .n_outputs = 1,
                          .threads = j->threads,
                          .calibration = &c};
    return gq_plan_new(&options, e);
}

static gq_importance_plan *plan_importance_of(const job *j, gq_error *e) {
    gq_text text = the_text();
    return gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                           .model = in,
                                                           .texts = &text,
                                                           .n_texts = 1,
                                                           .out = path(j->out),
                                                           .output = true,
                                                           .threads = j->threads,
                                                           .memory = j->memory,
                                                           .arithmetic = j->arithmetic},
                                  e);
}

static bool run_here(job j, gq_error *e) {
    gq_callbacks callbacks = {.size = sizeof callbacks, .user = &j.at, .cancelled = reached};
    gq_importance_plan *importance = j.importance ? plan_importance_of(&j, e) : NULL;
    gq_plan *plan = j.importance ? NULL : plan_calibration_of(&j, e);
    gq_imatrix *made = importance ? gq_importance_compute(importance, &callbacks, e) : NULL;
    bool done = made || (plan && gq_run(plan, &callbacks, NULL, e));
    gq_imatrix_free(made);
    gq_importance_plan_free(importance);
    gq_plan_free(plan);
    return done;
}

/* In a process of its own: memory that one run has taken counts in the next one. false: it was killed. */
static bool run(job j) {
    pid_t child = fork();
    if (child == 0) {
        gq_error e;
        bool done = run_here(j, &e);
        if (!done) fprintf(stderr, "%s\n", e.text);
        _exit(!done);
    }
    return run_finished(child);
}

/* Layers that an earlier run has finished and this one would go on after. */
static uint64_t layers_found(const job *j) {
    gq_error e;
    gq_importance_plan *importance = j->importance ? plan_importance_of(j, &e) : NULL;
    gq_plan *plan = j->importance ? NULL : plan_calibration_of(j, &e);
    if (!plan && !importance) fail_msg("%s", e.text);
    uint64_t n = plan ? gq_plan_calibration(plan)->layers_finished
                      : gq_importance_summary(importance)->layers_finished;
    gq_importance_plan_free(importance);
    gq_plan_free(plan);
    return n;
}

/* Whether the second halves of two files, which are data of tensors, are the same. */
static bool same_data(const char *a, const char *b) {
    size_t n, m;
    uint8_t *x = read_whole(path(a), &n), *y = read_whole(path(b), &m);
    size_t half = (n < m ? n : m) / 2;
    bool same = memcmp(x + n - half, y + m - half, half) == 0;
    free(x), free(y);
    return same;
}

/* ---- the tests ---- */

TEST(bytes_are_its_own_for_any_threads) {
    for (int importance = 0; importance < 2; importance++) {
        assert_true(run((job){importance, "one", "bf16", 1, 0, 0}));
        assert_true(run((job){importance, "three", "bf16", 3, 0, 0}));
        assert_true(run((job){importance, "float32", "float32", 1, 0, 0}));
        assert_same_file(path("one"), path("three"));
        assert_false(same_data("one", "float32"));
        unlink(path("one")), unlink(path("three")), unlink(path("float32"));
    }
}

/* The least with which all columns are rounded together, with more threads than that is decided for. */
static uint64_t little_memory(void) {
    uint64_t low = 1 << 20, high = 1 << 30; /* too little, enough */
    while (high - low > 4096) {
        uint64_t middle = low + (high - low) / 2;
        gq_error e;
        gq_plan *plan = plan_calibration_of(&(job){false, "little", "bf16", 16, middle, 0}, &e);
        const gq_calibration_facts *f = plan ? gq_plan_calibration(plan) : NULL;
        *(f && f->width == f->columns ? &high : &low) = middle;
        gq_plan_free(plan);
    }
    return high;
}

/* Little more, with which inputs of matrices are in a file. With more and more memory they are there or not
 * by turns, as batches, experts and the whole of a layer come to fit, and what the process has taken moves
 * these limits; so this is the middle of some amounts that have them there. */
static uint64_t memory_with_inputs_in_file(uint64_t least) {
    enum { STEP = 128 << 10, ROW = 7, MOST = 100 };
    int in_a_row = 0;
    for (int i = 0; i < MOST; i++) {
        gq_error e;
        gq_plan *plan = plan_calibration_of(&(job){false, "little", "bf16", 16, least + i * STEP, 0}, &e);
        const gq_calibration_facts *f = plan ? gq_plan_calibration(plan) : NULL;
        assert_true(f && f->width == f->columns); /* more memory never gives less width */
        in_a_row = f->inputs_disk > 0 ? in_a_row + 1 : 0;
        gq_plan_free(plan);
        if (in_a_row == ROW) return least + (i - ROW / 2) * STEP;
    }
    return least;
}

TEST(bytes_are_the_same_with_little_memory) {
    if (SANITIZED) return; /* sanitizers take memory of their own, more and more of it */
    gq_error e;
    uint64_t least = little_memory() + (64 << 10), memory = memory_with_inputs_in_file(least);
    gq_plan *plan = plan_calibration_of(&(job){false, "little", "bf16", 16, memory, 0}, &e);
    assert_true(plan && gq_plan_calibration(plan)->inputs_disk > 0); /* inputs of matrices are in a file */
    gq_plan_free(plan);
    assert_true(run((job){false, "much", "bf16", 1, 0, 0}));
    assert_true(run((job){false, "little", "bf16", 16, memory, 0}));
    assert_true(run((job){false, "least", "bf16", 16, least, 0}));
    assert_same_file(path("much"), path("little"));
    assert_same_file(path("much"), path("least"));
    unlink(path("much")), unlink(path("little")), unlink(path("least"));
}

/* A killed run goes on in the same arithmetic alone. */
TEST(a_killed_run_goes_on_in_its_arithmetic) {
    for (int importance = 0; importance < 2; importance++) {
        job killed = {importance, "killed", "bf16", 1, 0, 0}, other = killed;
        other.arithmetic = "float32";
        assert_true(run((job){importance, "calm", "bf16", 1, 0, 0}));
        for (size_t at = 4; layers_found(&killed) == 0; at += 4) {
            killed.at = at;
            if (run(killed)) fail_msg("it was never killed behind a layer");
        }
        assert_int_equal(layers_found(&other), 0);
        killed.at = 0;
        assert_true(run(killed));
        assert_same_file(path("calm"), path("killed"));
        unlink(path("calm")), unlink(path("killed"));
    }
}

int main(void) { return tests_run(start, folder_remove); }
