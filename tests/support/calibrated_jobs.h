/* For tests of calibrated runs: small models, jobs on them, and runs that are killed. */
#pragma once

#include <signal.h>

#include "tests/support/evaluation_model.h"
#include "tests/support/folder.h"
#include "tests/support/forward_models.h"
#include "tests/support/runs.h"

enum { VOCABULARY = 512, CONTEXT = 24, WINDOWS = 16, TOKENS = CONTEXT * WINDOWS, LAYERS = 2 };

static char text[8 * TOKENS];

FIXTURE(start) {
    folder = temporary_folder();
    write_run_models(path("model.gguf"), LAYERS, path("experts.gguf"));
    for (size_t i = 0, at = 0; i < TOKENS; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%zu ", i * i * 31 % VOCABULARY);
    return 0;
}

typedef struct job {
    gq_output outputs[3];
    gq_calibration calibration;
    gq_options options;
} job;

static inline job *job_of(const char *in, const char *out, const char *type) {
    static job j;
    j = (job){
        .outputs = {{.path = lasting(out), .filetype = type}},
        .calibration =
            {.size = sizeof(gq_calibration),
             .text = {.name = "ids", .bytes = text, .n = strlen(text), .ids = true, .context = CONTEXT}},
        .options = {.size = sizeof(gq_options), .n_outputs = 1, .threads = 1, .force = true}};
    j.options.input = lasting(in), j.options.outputs = j.outputs;
    j.options.calibration = &j.calibration;
    return &j;
}

static inline gq_results *run(const job *j) {
    gq_plan *plan = must_plan(&j->options);
    gq_results *results = must_run(plan);
    gq_plan_free(plan);
    return results;
}

static inline void just_run(const job *j) { gq_results_free(run(j)); }

static inline void check_roundings(const gq_results *results, size_t matrices) {
    size_t n, found = 0;
    const gq_rounding *r = gq_results_roundings(results, 0, &n);
    double plain_error = 0, written = 0;
    for (size_t i = 0; i < n; i++) {
        if (!r[i].matrices) continue;
        assert_true(r[i].power > 0 && r[i].written <= r[i].plain_error && r[i].tokens > 0);
        assert_true(r[i].plain == 0 || *r[i].why);
        found += r[i].matrices;
        plain_error += r[i].plain_error / r[i].power, written += r[i].written / r[i].power;
    }
    assert_int_equal(found, matrices);
    assert_true(written < plain_error);
}

typedef struct moment {
    size_t calls, at; /* killed at this call */
} moment;

static inline bool reached(void *user) {
    moment *m = user;
    if (++m->calls == m->at) raise(SIGKILL);
    return false;
}

/* In a process of its own; whether it finished. */
static inline bool run_until(const job *j, size_t at) {
    pid_t child = fork();
    if (child == 0) {
        moment m = {.at = at};
        gq_error e;
        gq_plan *p = gq_plan_new(&j->options, &e);
        bool done =
            p && gq_run(p, &(gq_callbacks){.size = sizeof(gq_callbacks), .user = &m, .cancelled = reached},
                        NULL, &e);
        if (!done) fprintf(stderr, "%s\n", e.text);
        _exit(done ? 0 : 1);
    }
    return run_finished(child);
}
