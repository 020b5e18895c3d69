/* Makes a plan as the public header has it: plan_make, and then a look at what an earlier run has left beside
 * the outputs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/sized.h"
#include "comm/ranks.h"
#include "quantize/plan/calibration/calibration.h"
#include "quantize/plan/calibration/calibration_ranks.h"
#include "quantize/plan/calibration/calibration_within.h"
#include "quantize/plan/paths.h"
#include "quantize/plan/plan.h"
#include "quantize/run/finalize.h"
#include "quantize/run/journal.h"
#include "quantize/strips/share.h"
#include "quantize/study/calibration_job.h"
#include "quantize/study/sample.h"
#include "quantize/study/trials.h"

/* The states of a calibrated run are made beside its first output. */
static bool check_states(const gq_plan *plan, const gq_options *options, gq_error *e) {
    const char *out = plan->outputs[0].shards[0].path;
    char *path = checkpoint_path(out);
    bool ok = path ? plan_check_beside(plan, options, path, e) : gq_fail_memory(e, strlen(out));
    free(path);
    return ok;
}

/* Whether no output's temporary file is there any more. */
static bool all_named(const gq_plan *plan) {
    struct stat st;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (uint32_t s = 0; s < plan->outputs[o].n_shards; s++)
            if (lstat(plan->outputs[o].shards[s].temporary, &st) == 0) return false;
    return true;
}

/* Cleans up where an output is there already: if a run of this very plan was killed after it had given the
 * last name, what lies beside the outputs is of no use. */
static void job_clean_up(const gq_plan *plan) {
    if (!all_named(plan)) return;
    if (plan->calibration) checkpoint_clean(plan->outputs[0].shards[0].path, &plan->calibration->head);
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
    bool ok = finalize_probe(plan, options, &left, e) && check_targets(plan, options, left.named, e) &&
              plan_warn_missing_folder(plan, options, e) && journal_check_names(plan, options, e) &&
              (!plan->calibration || check_states(plan, options, e)) &&
              journal_announce(plan, left.whole, &plan->warnings, e) &&
              plan_announce_calibration(plan, left.whole, e);
    free(left.named);
    return ok;
}

static const plan_studies studies = {.decide_layers = trials_decide_layers,
                                     .forecast = trials_forecast_seconds,
                                     .sample = sample_run,
                                     .trials = trials_run};

/* Makes a plan and forecasts its run. What fails leaves the way back to gq_plan_new, where all ranks agree.
 */
static gq_plan *job_plan(const gq_options *asked, gq_error *e) {
    gq_plan *plan = plan_make(asked, &studies, e);
    /* Of ranks the first one writes the files. */
    bool ok = plan && (!comm_is_first(asked->comm) || look_beside(plan, asked, e)) &&
              plan_agree_calibration(plan, e);
    bool measures = asked->forecast && !asked->foretell; /* with foretell it is not run */
    if (ok && (!plan->calibration || calibration_cost(plan, measures, asked->callbacks, e))) return plan;
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
    gq_calibration calibration;
    if (asked.calibration && !SIZED_TAKE(calibration, asked.calibration, e)) return NULL;
    if (asked.calibration) asked.calibration = &calibration;
    double began = clock_seconds();
    gq_plan *plan = asked.calibration && calibration.seconds > 0
                        ? calibration_plan_within(&asked, job_plan, e)
                        : job_plan(&asked, e);
    if (plan) plan->seconds = clock_seconds() - began;
    if (gq_comm_agree(asked.comm, plan, e)) return job_progress_end(&job), plan;
    gq_plan_free(plan);
    return NULL;
}
