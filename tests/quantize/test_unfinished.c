/* What an unfinished run of a model leaves beside its output: it is not used when it is damaged, nobody but
 * its run removes it, and it does not stay when nothing can go on from it. */
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/runs.h"

enum { VOCABULARY = 512, CONTEXT = 24, WINDOWS = 9, TOKENS = CONTEXT * WINDOWS, WIDTH = 256 };
enum { SLOTS_AT = 4096, SLOT = TOKENS * WIDTH * sizeof(float) };

static char text[8 * TOKENS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), 3, path("experts.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

static gq_text the_text(void) {
    return (gq_text){.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT};
}

static size_t files_there(void) { return count_files(folder); }

/* ---- both kinds of run, as one ---- */

typedef struct moment {
    size_t calls, at;  /* at this call it is stopped; 0: never */
    const char *touch; /* this file is changed at the second call */
} moment;

static bool reached(void *user) {
    moment *m = user;
    m->calls++;
    if (m->touch && m->calls == 2) {
        struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000}};
        assert_int_equal(utimensat(AT_FDCWD, m->touch, times, 0), 0);
    }
    return m->calls == m->at;
}

typedef struct job {
    bool importance; /* else a calibration */
    const char *in, *out;
} job;

typedef struct outcome {
    bool done;
    uint64_t finished; /* layers, before it */
    gq_error e;
    char warnings[4096];
} outcome;

static void add_warnings(outcome *o, const char *const *warnings, size_t n) {
    for (size_t i = 0; i < n; i++)
        snprintf(o->warnings + strlen(o->warnings), sizeof o->warnings - strlen(o->warnings), "%s\n",
                 warnings[i]);
}

static void run_importance(const job *j, moment *m, bool only_plan, outcome *o) {
    size_t n;
    gq_text t = the_text();
    gq_importance_plan *p =
        gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                        .model = j->in,
                                                        .texts = &t,
                                                        .n_texts = 1,
                                                        .out = j->out,
                                                        .output = true,
                                                        .threads = 1},
                               &o->e);
    if (!p) return;
    const char *const *warnings = gq_importance_warnings(p, &n);
    add_warnings(o, warnings, n);
    o->finished = gq_importance_summary(p)->layers_finished;
    if (!only_plan) {
        gq_imatrix *made = gq_importance_compute(
            p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = m, .cancelled = reached}, &o->e);
        o->done = made;
        gq_imatrix_free(made);
    }
    gq_importance_plan_free(p);
}

static void run_calibration(const job *j, moment *m, bool only_plan, outcome *o) {
    size_t n;
    gq_output out = {.path = j->out, .filetype = "Q4_0"};
    gq_calibration calibration = {.size = sizeof calibration,
                                  .text = the_text(),
                                  .steps = "-random"}; /* SLOT is of the text's windows */
    gq_options options = {.size = sizeof options,
                          .input = j->in,
                          .outputs = &out,
                          .n_outputs = 1,
                          .threads = 1,
                          .calibration = &calibration};
    gq_plan *p = gq_plan_new(&options, &o->e);
    if (!p) return;
    const char *const *warnings = gq_plan_warnings(p, &n);
    add_warnings(o, warnings, n);
    o->finished = gq_plan_calibration(p)->layers_finished;
    if (!only_plan) {
        gq_results *results;
        o->done = gq_run(p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = m, .cancelled = reached},
                         &results, &o->e);
        warnings = results ? gq_results_warnings(results, &n) : NULL;
        if (results) add_warnings(o, warnings, n);
        gq_results_free(results);
    }
    gq_plan_free(p);
}

static outcome run_job(const job *j, moment m, bool only_plan) {
    outcome o = {.done = false};
    (j->importance ? run_importance : run_calibration)(j, &m, only_plan, &o);
    return o;
}
static outcome planned(const job *j) { return run_job(j, (moment){0}, true); }
static void finish(const job *j) {
    outcome o = run_job(j, (moment){0}, false);
    if (!o.done) fail_msg("%s", o.e.text);
}

/* Stopped when the first layers are finished. */
static void stop_in_the_middle(const job *j, uint64_t layers, size_t step) {
    for (size_t at = 3;; at += step) {
        outcome o = run_job(j, (moment){.at = at}, false);
        if (o.done) fail_msg("it was never stopped behind layer %d", (int)layers);
        assert_int_equal(o.e.status, GQ_INTERRUPTED);
        if (planned(j).finished >= layers) return;
    }
}

static job jobs[] = {{.importance = true}, {.importance = false}};
enum { JOBS = sizeof jobs / sizeof *jobs };

static job *job_of(size_t i, const char *in, const char *out) {
    jobs[i].in = lasting(in), jobs[i].out = lasting(out);
    return &jobs[i];
}

static void make_wanted(size_t i, const char *in, const char *name) {
    unlink(path(name));
    finish(job_of(i, in, name));
}

/* ---- damage ---- */

static void flip(const char *name, off_t at) {
    uint8_t byte = 0;
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* One bit of what is gone on from, the first, some or the last. */
TEST(damaged_states_are_not_used) {
    static const size_t places[] = {1, SLOT / 2, SLOT - 1};
    const char *states = lasting(".damaged.gquant-states");
    for (size_t i = 0; i < JOBS; i++) {
        make_wanted(i, "model.gguf", "wanted");
        for (size_t k = 0; k < 3; k++) {
            job *j = job_of(i, "model.gguf", "damaged");
            stop_in_the_middle(j, 1, 4);
            uint64_t finished = planned(j).finished;
            size_t stream = i == 0 ? 0 : k % 2; /* the original's, that of what is rounded */
            flip(states, (off_t)(SLOTS_AT + (2 * stream + finished % 2) * SLOT + places[k]));
            outcome o = planned(j);
            assert_int_equal(o.finished, 0);
            if (!strstr(o.warnings, "starts afresh: its file is damaged")) fail_msg("%s", o.warnings);
            finish(j);
            assert_same_file(path("wanted"), path("damaged"));
            assert_false(exists(states));
            unlink(j->out);
        }
        unlink(path("wanted"));
    }
}

/* The other slot gets the next layer's states, and what is in it does not matter. */
TEST(other_slots_may_hold_anything) {
    const char *states = lasting(".slots.gquant-states");
    for (size_t i = 0; i < JOBS; i++) {
        make_wanted(i, "model.gguf", "wanted");
        job *j = job_of(i, "model.gguf", "slots");
        stop_in_the_middle(j, 1, 4);
        uint64_t finished = planned(j).finished;
        flip(states, (off_t)(SLOTS_AT + (finished + 1) % 2 * SLOT + 99));
        assert_int_equal(planned(j).finished, finished);
        finish(j);
        assert_same_file(path("wanted"), path("slots"));
        unlink(j->out), unlink(path("wanted"));
    }
}

/* Blocks that a record promises are not those of the file: begun anew, and said. */
TEST(damaged_blocks_are_told_of) {
    make_wanted(1, "model.gguf", "wanted");
    job *j = job_of(1, "model.gguf", "blocks");
    stop_in_the_middle(j, 1, 4);
    struct stat st;
    assert_int_equal(stat(path(".blocks.gquant"), &st), 0);
    for (off_t at = 0; at < st.st_size; at += 500) flip(path(".blocks.gquant"), at);
    outcome o = run_job(j, (moment){0}, false);
    assert_true(o.done);
    if (!strstr(o.warnings, "starts afresh")) fail_msg("%s", o.warnings);
    assert_same_file(path("wanted"), path("blocks"));
    unlink(j->out), unlink(path("wanted"));
}

/* ---- whose is it? ---- */

/* Whatever a run is refused for, what another has left, or is at work with, stays. */
TEST(a_refused_run_removes_nothing) {
    static const char *const held[] = {".refused.gquant", ".refused.gquant-journal",
                                       ".refused.gquant-states"};
    for (size_t i = 0; i < JOBS; i++) {
        make_wanted(i, "model.gguf", "wanted");
        job *j = job_of(i, "model.gguf", "refused");
        stop_in_the_middle(j, 1, 4);
        uint64_t finished = planned(j).finished;
        for (size_t k = i == 0 ? 2 : 0; k < 3; k++) {
            size_t files = files_there();
            int fd = open(path(held[k]), O_RDWR);
            assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
            outcome o = run_job(j, (moment){0}, false);
            assert_false(o.done);
            if (!strstr(o.e.text, "another process")) fail_msg("%s", o.e.text);
            assert_int_equal(files_there(), files);
            close(fd);
            assert_int_equal(planned(j).finished, finished);
        }
        finish(j);
        assert_same_file(path("wanted"), path("refused"));
        unlink(j->out), unlink(path("wanted"));
    }
}

/* Nor one whose output was not begun by it: only the states are another's. */
TEST(states_of_a_run_at_work_stay) {
    job *j = job_of(1, "model.gguf", "work");
    stop_in_the_middle(j, 1, 4);
    assert_int_equal(unlink(path(".work.gquant")), 0);
    int fd = open(path(".work.gquant-states"), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_false(run_job(j, (moment){0}, false).done);
    assert_true(exists(path(".work.gquant-states")));
    close(fd);
    finish(j);
    unlink(j->out);
}

/* ---- nothing to go on with ---- */

static void add_bad_layer(model *m) {
    float *x = random_values(256 * 64, 1);
    char name[64];
    static const char *const names[] = {"attn_norm", "attn_q",   "attn_k", "attn_output",
                                        "ffn_norm",  "ffn_gate", "ffn_up", "ffn_down"};
    static const uint64_t sizes[][2] = {{256, 0}, {256, 256}, {256, 64},  {256, 256},
                                        {256, 0}, {256, 512}, {256, 512}, {512, 256}};
    model_set_u32(m, "llama.block_count", 2);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "blk.1.%s.weight", names[i]);
        add_weights(m, name, 5, sizes[i][0], sizes[i][1]);
    }
    x[5] = (float)NAN;
    model_add(m, "blk.1.attn_v.weight", GGUF_F32, (uint64_t[4]){256, 64}, x);
    free(x);
}

TEST(bad_input_leaves_nothing) {
    model *m = evaluation_model(1);
    add_bad_layer(m);
    model_save(m, path("bad.gguf"));
    for (size_t i = 0; i < JOBS; i++) {
        job *j = job_of(i, "bad.gguf", "bad");
        size_t files = files_there();
        outcome o = run_job(j, (moment){0}, false);
        assert_false(o.done);
        assert_int_equal(o.e.status, GQ_BAD_WEIGHTS);
        if (!strstr(o.e.text, "finite")) fail_msg("%s", o.e.text);
        if (strstr(o.e.text, "goes on")) fail_msg("%s", o.e.text);
        assert_int_equal(files_there(), files);
        stop_in_the_middle(j, 1, 1); /* and what an earlier run has left of the first layer goes as well */
        assert_false(run_job(j, (moment){0}, false).done);
        assert_int_equal(files_there(), files);
    }
    unlink(path("bad.gguf"));
}

/* ---- an output that appears ---- */

static bool appears(void *out) {
    if (!exists(out)) write_whole(out, "another's", 9);
    return false;
}

/* What was done is kept, and how to replace the file is still said. */
TEST(an_output_that_appears_can_be_replaced) {
    gq_error e;
    gq_text t = the_text();
    const char *out = lasting("appeared");
    gq_importance_plan *p =
        gq_importance_plan_new(&(gq_importance_request){.size = sizeof(gq_importance_request),
                                                        .model = path("model.gguf"),
                                                        .texts = &t,
                                                        .n_texts = 1,
                                                        .out = out,
                                                        .threads = 1},
                               &e);
    assert_non_null(p);
    const gq_callbacks calls = {.size = sizeof calls, .user = (void *)out, .cancelled = appears};
    assert_null(gq_importance_compute(p, &calls, &e));
    gq_importance_plan_free(p);
    if (!strstr(e.text, "already exists; finished work is kept in")) fail_msg("%s", e.text);
    assert_int_equal(e.status, GQ_FAILED);
    assert_int_equal(e.remedy, GQ_REMEDY_REPLACE);
    unlink(out);
    finish(job_of(0, "model.gguf", "appeared"));
    unlink(out);
}

/* ---- inputs that change ---- */

TEST(a_model_that_changes_is_noticed) {
    for (size_t i = 0; i < JOBS; i++) {
        model_save(evaluation_model(2), path("changing.gguf"));
        job *j = job_of(i, "changing.gguf", "changed");
        size_t files = files_there();
        outcome o = run_job(j, (moment){.touch = j->in}, false);
        assert_false(o.done);
        if (!strstr(o.e.text, "changing.gguf was changed while it was being read")) fail_msg("%s", o.e.text);
        if (strstr(o.e.text, "goes on")) fail_msg("%s", o.e.text);
        assert_int_equal(files_there(), files);
        unlink(j->in);
    }
}

TEST(evaluating_notices_it_as_well) {
    static const char *const names[] = {"changing.gguf", "copy.gguf"};
    for (size_t i = 0; i < 2; i++) {
        gq_error e;
        model *m = evaluation_model(2);
        for (size_t k = 0; k < 2; k++) model_write(m, path(names[k]));
        model_free(m);
        const char *copy = lasting("copy.gguf");
        moment changes = {.touch = lasting(names[i])};
        size_t files = files_there();
        gq_callbacks callbacks = {.size = sizeof callbacks, .user = &changes, .cancelled = reached};
        assert_null(gq_evaluate(&(gq_evaluation_request){.size = sizeof(gq_evaluation_request),
                                                         .base_model = lasting("changing.gguf"),
                                                         .quants = &copy,
                                                         .n_quants = 1,
                                                         .text = the_text(),
                                                         .logits = lasting("logits"),
                                                         .threads = 1,
                                                         .callbacks = &callbacks},
                                &e));
        if (!strstr(e.text, "was changed while it was being read") || !strstr(e.text, names[i]))
            fail_msg("%s", e.text);
        assert_int_equal(files_there(), files);
        for (size_t k = 0; k < 2; k++) unlink(path(names[k]));
    }
}

int main(void) { return tests_run(start, folder_remove); }
