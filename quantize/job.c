/* The core joined with what runs models, for the functions of the public headers that need both: plans,
 * verifying, arrays. This file alone of the core includes study/ and forward/; with -DGQUANT_FORWARD=OFF it
 * does not. A plan is plan_make's, and then a look at what an earlier run has left beside the outputs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/comm/ranks.h"
#include "base/relay.h"
#include "base/sized.h"
#include "quantize/arrays/arrays.h"
#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"
#include "quantize/run/run.h"
#ifndef GQ_NO_FORWARD
#include "forward/graph/forward.h"
#include "study/calibrate/calibrate.h"
#include "study/inputs/inputs.h"
#include "study/study.h"
#endif

/* Whether no output's temporary file is there any more. */
static bool all_named(const gq_plan *plan) {
    struct stat st;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++)
            if (lstat(plan->outputs[o].shards[s].temporary, &st) == 0) return false;
    return true;
}

/* Cleans up where an output already exists: if a run of this very plan was killed after it had given the last name,
 * what lies beside the outputs is of no use. */
static void job_clean_up(const gq_plan *plan) {
    if (!all_named(plan)) return;
    if (plan->rounding->kind->clean_up) plan->rounding->kind->clean_up(plan, 0, true);
    journal_clean(plan);
}

static bool check_targets(const gq_plan *plan, const gq_options *options, const bool *named, gq_error *e) {
    gq_error why = {.text = ""};
    if (plan_check_targets(plan, options, named, &why)) return true;
    if (why.remedy == GQ_REMEDY_REPLACE) job_clean_up(plan);
    if (e) *e = why;
    return false;
}

/* Checks that the outputs may have their names, or have got them already, and warns of what will be
 * continued. */
static bool look_beside(gq_plan *plan, const gq_options *options, gq_error *e) {
    finalize_left left = {.named = NULL};
    const rounding_kind *k = plan->rounding->kind;
    bool ok = finalize_probe(plan, options, &left, e) && check_targets(plan, options, left.named, e) &&
              plan_warn_missing_folder(plan, options, e) && journal_check_names(plan, options, e) &&
              journal_announce(plan, left.whole, &plan->warnings, e) &&
              (!k->announce || k->announce(plan, options, left.whole, e));
    free(left.named);
    return ok;
}

/* ---- what runs models, and what needs it ---- */

#ifdef GQ_NO_FORWARD
static const model_runners runners;
#else
static const model_runners runners = {.calibration = &rounding_by_calibration,
                                      .plan_within = calibration_plan_within,
                                      .trials = &measurement_by_trials,
                                      .arrays = &rounding_by_hessian,
                                      .check = forward_model_check};
#endif

bool gq_encode(uint32_t type, uint64_t rows, uint64_t cols, const float *x, const gq_array_options *options,
               void *to, size_t bytes, gq_loss *loss, gq_error *e) {
    return array_encode(type, rows, cols, x, options, to, bytes, runners.arrays, loss, e);
}

gq_verification *gq_verify(const char *path, const gq_checksum *expected, size_t n, int threads,
                           const gq_callbacks *callbacks, gq_error *e) {
    return verify_model(path, expected, n, threads, runners.check, callbacks, e);
}

/* ---- plans ---- */

/* Makes a plan and forecasts its run. What fails leaves the way back to gq_plan_new, where all ranks agree.
 */
static gq_plan *job_plan(const gq_options *asked, gq_error *e) {
    gq_plan *plan = plan_make(asked, &runners, e);
    /* With several ranks the first one writes the files. */
    const rounding_kind *k = plan ? plan->rounding->kind : NULL;
    bool measures = asked->forecast && !asked->foretell; /* with foretell it is not run */
    if (plan && (!comm_is_first(asked->comm) || look_beside(plan, asked, e)) &&
        (!k->agree || k->agree(plan, e)) &&
        (!k->forecast || k->forecast(plan, measures, asked->callbacks, e)))
        return plan;
    gq_plan_free(plan);
    return NULL;
}

gq_plan *gq_plan_new(const gq_options *options, gq_error *e) {
    gq_options asked;
    job_progress job;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, options, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    job_progress_begin(&job, &callbacks, 1);
    asked.callbacks = job_progress_stage(&job, 1);
    gq_calibration text;
    if (asked.calibration && !SIZED_TAKE(text, asked.calibration, e)) return NULL;
    if (asked.calibration) asked.calibration = &text;
    double began = clock_seconds();
    bool within = asked.calibration && text.seconds > 0 && runners.plan_within;
    gq_plan *plan = within ? runners.plan_within(&asked, job_plan, e) : job_plan(&asked, e);
    if (plan) plan->seconds = clock_seconds() - began;
    if (gq_comm_agree(asked.comm, plan, e)) return job_progress_end(&job), plan;
    gq_plan_free(plan);
    return NULL;
}
