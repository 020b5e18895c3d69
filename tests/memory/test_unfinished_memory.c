/* Memory that runs out while an unfinished run of a model is gone on with: it is an error, or was not needed,
 * and what was finished stays. */
#include "tests/memory/memory.h"
#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"

enum { VOCABULARY = 512, CONTEXT = 8, TOKENS = 3 * CONTEXT, LAYERS = 2 };

static char ids[8 * TOKENS], in[4096], out[4096];

FIXTURE(start) {
    folder = temporary_folder();
    snprintf(in, sizeof in, "%s", path("model.gguf")), snprintf(out, sizeof out, "%s", path("out"));
    model_save(evaluation_model(LAYERS), in);
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(ids + at, sizeof ids - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

/* ---- both kinds of run ---- */

typedef struct outcome {
    bool planned, done, afresh;
    uint64_t finished; /* layers, before it */
    gq_error e;
} outcome;

/* Stops at the call of this number from now; 0: never. */
static bool reached(void *user) {
    size_t *calls = user;
    return *calls > 0 && --*calls == 0;
}

static void look_at_warnings(outcome *o, const char *const *warnings, size_t n) {
    for (size_t i = 0; i < n; i++) o->afresh = o->afresh || strstr(warnings[i], "afresh");
}

static gq_text the_text(void) {
    return (gq_text){.name = "ids", .bytes = ids, .n = strlen(ids), .ids = true, .context = CONTEXT};
}

static outcome run_importance(bool only_plan, size_t stop_at) {
    outcome o = {.done = false};
    size_t n;
    gq_text text = the_text();
    gq_importance_request r = {.size = sizeof r,
                               .model = in,
                               .texts = &text,
                               .n_texts = 1,
                               .out = out,
                               .output = true,
                               .threads = 1};
    gq_importance_plan *p = gq_importance_plan_new(&r, &o.e);
    o.planned = p;
    if (!p) return o;
    const char *const *warnings = gq_importance_warnings(p, &n);
    look_at_warnings(&o, warnings, n);
    o.finished = gq_importance_summary(p)->layers_finished;
    if (!only_plan) {
        gq_callbacks calls = {.size = sizeof calls, .user = &stop_at, .cancelled = reached};
        gq_imatrix *made = gq_importance_compute(p, &calls, &o.e);
        o.done = made;
        gq_imatrix_free(made);
    }
    gq_importance_plan_free(p);
    return o;
}

static outcome run_calibration(bool only_plan, size_t stop_at) {
    outcome o = {.done = false};
    size_t n;
    gq_output output = {.path = out, .filetype = "Q4_0"};
    gq_calibration calibration = {.size = sizeof calibration, .text = the_text()};
    gq_options options = {.size = sizeof options,
                          .input = in,
                          .outputs = &output,
                          .n_outputs = 1,
                          .threads = 1,
                          .calibration = &calibration};
    gq_plan *p = gq_plan_new(&options, &o.e);
    o.planned = p;
    if (!p) return o;
    const char *const *warnings = gq_plan_warnings(p, &n);
    look_at_warnings(&o, warnings, n);
    o.finished = gq_plan_calibration(p)->layers_finished;
    if (!only_plan) {
        gq_callbacks calls = {.size = sizeof calls, .user = &stop_at, .cancelled = reached};
        gq_results *results = NULL;
        o.done = gq_run(p, &calls, &results, &o.e);
        warnings = results ? gq_results_warnings(results, &n) : NULL;
        if (results) look_at_warnings(&o, warnings, n);
        gq_results_free(results);
    }
    gq_plan_free(p);
    return o;
}

typedef outcome job(bool only_plan, size_t stop_at);

/* ---- the test ---- */

static void stop_in_the_middle(job *run) {
    for (size_t at = 3; run(true, 0).finished == 0; at += 2)
        if (run(false, at).done) fail_msg("it was never stopped behind a layer");
}

/* It is stopped before another layer is finished, so that it can be gone on with again and again. */
TEST(memory_that_runs_out_loses_no_layer) {
    static job *const jobs[] = {run_importance, run_calibration};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        stop_in_the_middle(jobs[i]);
        uint64_t finished = jobs[i](true, 0).finished;
        bool reached_all = false;
        long at = 0;
        while (!reached_all) {
            fail_at = ++at;
            outcome o = jobs[i](false, 1);
            reached_all = fail_at > 0;
            fail_at = 0;
            if (o.done || o.afresh) fail_msg("allocation %ld: done: %d, afresh: %d", at, o.done, o.afresh);
            if (o.planned && o.finished != finished)
                fail_msg("allocation %ld: planned with %d layers", at, (int)o.finished);
            if (jobs[i](true, 0).finished != finished) fail_msg("allocation %ld: %s", at, o.e.text);
        }
        print_message("each of %ld allocations failed\n", at - 1);
        assert_true(jobs[i](false, 0).done);
        assert_int_equal(count_files(folder), 2);
        unlink(out);
    }
}

int main(void) { return tests_run(start, folder_remove); }
