/* A job as the public header has it: a plan, made with what an earlier run has left beside its outputs in
 * view.
 */
#include <stdlib.h>

#include "quantize/plan/calibration.h"
#include "quantize/plan/paths.h"
#include "quantize/plan/plan.h"
#include "quantize/run/journal.h"
#include "quantize/run/names.h"
#include "quantize/schedule.h"
#include "quantize/sized.h"

/* Whether the outputs may have their names, or have got them already, and what is to be gone on with. */
static bool look_beside(gq_plan *plan, const gq_options *options, gq_error *e) {
    names_left left = {.named = NULL};
    bool ok = names_look(plan, options, &left, e) && plan_check_targets(plan, options, left.named, e) &&
              journal_check_names(plan, options, e) &&
              journal_announce(plan, left.whole, &plan->warnings, e) &&
              plan_announce_calibration(plan, left.whole, e);
    free(left.named);
    return ok;
}

gq_plan *gq_plan_new(const gq_options *options, gq_error *e) {
    gq_options asked;
    gq_callbacks callbacks;
    if (!SIZED_TAKE(asked, options, e) || !SIZED_TAKE(callbacks, asked.callbacks, e)) return NULL;
    asked.callbacks = &callbacks;
    gq_calibration calibration;
    if (asked.calibration && !SIZED_TAKE(calibration, asked.calibration, e)) return NULL;
    if (asked.calibration) asked.calibration = &calibration;
    double began = schedule_clock();
    gq_plan *plan = plan_make(&asked, e);
    if (plan && !look_beside(plan, &asked, e)) gq_plan_free(plan), plan = NULL;
    if (plan) plan->seconds = schedule_clock() - began;
    return plan;
}
