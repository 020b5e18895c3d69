/* The validation of calibrated outputs on held-out windows: layers that do not lower the KL divergence fall back. */
#include <math.h>

#include "tests/support/calibrated_jobs.h"

/* So few tokens for so strong a correction that calibrated layers do the model harm. */
enum { FEW = 2 * CONTEXT };
static job *harmful_job(const char *in, const char *out) {
    job *j = job_of(in, out, "Q4_0");
    j->calibration.text.tokens = FEW;
    j->calibration.correction = 1, j->calibration.shrink = -1, j->calibration.damp = 1e-4f;
    return j;
}

static gq_step validation_of(const gq_results *results) {
    size_t n;
    const gq_step *steps = gq_results_steps(results, 0, &n);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(steps[i].name, "validation")) return steps[i];
    fail_msg("there is no step \"validation\"");
    return steps[0];
}

static size_t fell_back(const gq_results *results) {
    size_t n, found = 0;
    const gq_rounding *r = gq_results_roundings(results, 0, &n);
    for (size_t i = 0; i < n; i++) {
        if (!strstr(r[i].why, "the model as a whole")) continue;
        assert_int_equal(r[i].plain, r[i].matrices);
        assert_true(r[i].written == r[i].plain_error && r[i].steps == 0);
        found += r[i].matrices;
    }
    return found;
}

static bool warns_of(const gq_results *results, const char *what) {
    size_t n;
    const char *const *warnings = gq_results_warnings(results, &n);
    for (size_t i = 0; i < n; i++)
        if (strstr(warnings[i], what)) return true;
    return false;
}

TEST(layers_that_help_stay) {
    gq_results *results = run(job_of("model.gguf", "good.gguf", "Q4_0"));
    gq_step s = validation_of(results);
    assert_int_equal(s.compared, 1);
    assert_int_equal(s.matrices, LAYERS * 7);
    assert_true(s.with < s.without);
    assert_int_equal(fell_back(results) + s.kept, s.matrices);
    gq_results_free(results);
}

TEST(layers_that_harm_fall_back) {
    gq_results *results = run(harmful_job("model.gguf", "harmed.gguf"));
    gq_step s = validation_of(results);
    size_t fallen = fell_back(results);
    assert_int_equal(s.compared, 1);
    assert_true(fallen > 0 && s.kept + fallen == s.matrices);
    assert_true(s.with <= s.without);
    assert_true(warns_of(results, "calibrating layers 0 to 1 did not lower the KL divergence"));
    gq_results_free(results);
    job *j = harmful_job("model.gguf", "unchecked.gguf");
    j->calibration.steps = "-validation";
    results = run(j);
    assert_int_equal(validation_of(results).compared, 0);
    assert_int_equal(fell_back(results), 0);
    gq_results_free(results);
}

/* In every place, also between the decision and the last tensor that is written anew. */
TEST(a_run_killed_while_it_falls_back_goes_on) {
    gq_results_free(run(harmful_job("experts.gguf", "calm.gguf")));
    job *j = harmful_job("experts.gguf", "killed.gguf");
    size_t killed = 0;
    for (size_t at = 10; killed < 200 && !run_until(j, at); at += 10) killed++;
    assert_true(killed > 0 && killed < 200);
    assert_same_file(path("calm.gguf"), path("killed.gguf"));
}

TEST(falls_back_alike_for_any_threads_and_memory) {
    just_run(harmful_job("experts.gguf", "one.gguf"));
    job *j = harmful_job("experts.gguf", "two.gguf");
    j->options.threads = 3;
    gq_plan *plan = must_plan(&j->options);
    gq_calibration_facts all = *gq_plan_calibration(plan), less = all;
    gq_plan_free(plan);
    for (unsigned tenths = 9; !SANITIZED && tenths > 4 && less.width == all.width; tenths--) {
        gq_error e; /* sanitizers take memory of their own */
        j->calibration.memory = all.memory * tenths / 10;
        if (!(plan = gq_plan_new(&j->options, &e))) break;
        less = *gq_plan_calibration(plan);
        gq_plan_free(plan);
        if (less.width == all.width) just_run(j), assert_same_file(path("one.gguf"), path("two.gguf"));
    }
    j->calibration.memory = 0;
    just_run(j);
    assert_same_file(path("one.gguf"), path("two.gguf"));
}

/* Held-out windows in which no token that is predicted counts decide nothing, and that is told. */
TEST(windows_without_counted_tokens_decide_nothing) {
    enum { CHATS = 12 };
    char chats[CHATS * 16];
    size_t at = (size_t)snprintf(chats, sizeof chats, "#gquant-chats 1\n");
    for (size_t c = 0; c < CHATS; c++)
        at += (size_t)snprintf(chats + at, sizeof chats - at, "=1 %zu\n", 3 + 17 * c);
    job *j = job_of("model.gguf", "uncounted.gguf", "Q4_0");
    j->calibration.text.bytes = chats, j->calibration.text.n = at;
    j->calibration.steps = "-random";
    gq_results *results = run(j);
    assert_true(warns_of(results, "no token of the held-out windows counts"));
    assert_int_equal(validation_of(results).compared, 0);
    assert_int_equal(fell_back(results), 0);
    gq_results_free(results);
}

typedef struct last_told {
    double least, most;
} last_told;

static void note_share(void *user, const gq_progress *p) {
    last_told *t = user;
    if (!p->tensor || !strstr(p->tensor, "validation")) return;
    t->least = fmin(t->least, p->share), t->most = fmax(t->most, p->share);
}

TEST(progress_is_told) {
    last_told t = {1, 0};
    gq_plan *plan = must_plan(&harmful_job("model.gguf", "told.gguf")->options);
    gq_error e;
    assert_true(gq_run(
        plan, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = &t, .progress = note_share}, NULL, &e));
    gq_plan_free(plan);
    assert_true(t.most > t.least);
}

/* What the validation takes of memory does not depend on the order of outputs. */
TEST(memory_counts_all_outputs) {
    uint64_t memory[2];
    if (SANITIZED) return; /* sanitizers take memory of their own, more and more of it */
    /* Twice: what the process has counts, and the first plans make it grow. */
    for (size_t i = 0; i < 8; i++) {
        bool order = i / 2 % 2;
        job *j = job_of("experts.gguf", "a.gguf", order ? "Q4_0" : "F16");
        j->outputs[1] = (gq_output){.path = lasting("b.gguf"), .filetype = order ? "F16" : "Q4_0"};
        j->options.n_outputs = 2, j->calibration.steps = i % 2 ? "default" : "-validation";
        gq_plan *plan = must_plan(&j->options);
        uint64_t bytes = gq_plan_calibration(plan)->memory;
        memory[order] = i % 2 ? bytes - memory[order] : bytes;
        gq_plan_free(plan);
    }
    assert_true(memory[0] > 0);
    assert_int_equal(memory[0], memory[1]);
}

int main(void) { return tests_run(start, folder_remove); }
