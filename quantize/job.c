/* Makes a plan as the public header has it: plan_make, and then a look at what an earlier run has left beside
 * the outputs. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/comm/ranks.h"
#include "base/relay.h"
#include "base/sized.h"
#include "quantize/plan/paths.h"
#include "quantize/plan/plan.h"
#include "quantize/run/finalize.h"
#include "quantize/run/journal.h"
#include "study/calibrate/calibration.h"
#include "study/calibrate/calibration_job.h"
#include "study/sample.h"
#include "study/trials.h"

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

/* ---- a calibration that takes no longer than a given time ---- */

/* What a calibration may be, best first. Tokens are spared before steps are: bench/results/calibration.md has the
 * curve. */
typedef struct calibration_way {
    uint64_t tokens;
    const char *left_out; /* steps, as users give them; "": none */
} calibration_way;
static const calibration_way ways[] = {
    {262144, ""}, {131072, ""}, {65536, ""}, {32768, ""},       {16384, ""},
    {8192, ""},   {4096, ""},   {2048, ""},  {2048, "-trials"}, {2048, "-trials,-sweeps"},
};
enum { WAYS = sizeof ways / sizeof *ways };

static bool plan_way(const gq_options *asked, const calibration_way *way, uint64_t tokens, bool forecast,
                     gq_plan **plan, gq_error *e) {
    gq_options options = *asked;
    gq_calibration calibration = *asked->calibration;
    calibration.steps = way->left_out, calibration.text.tokens = tokens;
    options.calibration = &calibration, options.forecast = forecast;
    *plan = job_plan(&options, e);
    if (*plan) (*plan)->calibration->facts.left_out = way->left_out;
    return *plan;
}

/* Whether the plan is what was looked for: one that an unfinished run is of, or one that takes no longer than
 * asked. The first rank, which sees the files and whose machine counts, decides. */
static bool plan_is_taken(const gq_options *asked, const gq_plan *plan, bool forecast, bool *is_taken,
                          gq_error *e) {
    const gq_calibration_facts *f = &plan->calibration->facts;
    *is_taken = forecast ? f->seconds_expected <= asked->calibration->seconds : f->layers_finished > 0;
    return comm_broadcast(asked->comm, is_taken, sizeof *is_taken, e);
}

/* Looks at one way after another. *plan NULL: none was taken; *least: the seconds of the last one. */
static bool plan_first(const gq_options *asked, bool forecast, gq_plan **plan, double *least, gq_error *e) {
    const gq_text *text = &asked->calibration->text;
    uint64_t most = text->tokens ? text->tokens : UINT64_MAX, last = 0;
    const char *left_out = "";
    for (size_t i = 0; i < WAYS; i++) {
        uint64_t tokens = min(ways[i].tokens, most);
        if (last && tokens < text->context) break;                           /* not one window */
        if (tokens == last && !strcmp(left_out, ways[i].left_out)) continue; /* there is no more text */
        bool is_taken;
        if (!plan_way(asked, &ways[i], tokens, forecast, plan, e)) return false;
        if (!plan_is_taken(asked, *plan, forecast, &is_taken, e)) return gq_plan_free(*plan), false;
        const gq_calibration_facts *f = &(*plan)->calibration->facts;
        *least = f->seconds_expected, last = most = min(most, f->tokens), left_out = ways[i].left_out;
        if (is_taken && !forecast && asked->forecast) { /* once more, as the forecast is asked for */
            gq_plan_free(*plan);
            return plan_way(asked, &ways[i], tokens, true, plan, e);
        }
        if (is_taken) return true;
        gq_plan_free(*plan);
        *plan = NULL;
    }
    return true;
}

/* Makes plans of calibrations that take less and less, the best first, and returns the first one whose
 * forecast is within the seconds asked for. Where an unfinished run of one of them lies beside the outputs,
 * that is continued instead. What is chosen are tokens and steps, which the plan's facts have: a plan that is
 * asked for these makes the same bytes. */
static gq_plan *plan_within(const gq_options *asked, gq_error *e) {
    gq_plan *plan = NULL;
    double least = 0, given = asked->calibration->seconds;
    if (asked->calibration->steps && *asked->calibration->steps) {
        gq_fail_usage(e, "steps of a calibration cannot be asked for beside its time, which chooses them");
        return NULL;
    }
    if (!plan_first(asked, false, &plan, &least, e)) return NULL;
    if (plan || !plan_first(asked, true, &plan, &least, e) || plan) return plan;
    gq_fail_usage(
        e,
        "the least calibration takes about %.*f seconds on this machine, and %.*f are given; give more "
        "time, or importance data in place of a calibration",
        least < 10, least, given < 10, given);
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
    gq_plan *plan =
        asked.calibration && calibration.seconds > 0 ? plan_within(&asked, e) : job_plan(&asked, e);
    if (plan) plan->seconds = clock_seconds() - began;
    if (gq_comm_agree(asked.comm, plan, e)) return job_progress_end(&job), plan;
    gq_plan_free(plan);
    return NULL;
}
