#include <stdlib.h>

#include "quantize/plan/rounding.h"
#include "quantize/quantize.h"

static bool search_open(gq_plan *plan, const gq_options *options, gq_error *e) {
    if (!plan_open_importance(plan, options, e)) return false;
    plan->rounding->knows_inputs = plan->inputs.n_entries > 0;
    return true;
}

/* The codecs' own search, weighted where there is an imatrix. */
static const rounding_kind rounding_search = {.open = search_open, .can_round = plan_has_importance};

bool rounding_open(gq_plan *plan, const gq_options *options, gq_error *e) {
    const rounding_kind *k = options->calibration ? plan->runners->calibration : &rounding_search;
    if (!k) return gq_fail_usage(e, "a calibration runs the model, and " RUNNERS_MISSING);
    plan->rounding = calloc(1, sizeof *plan->rounding);
    if (!plan->rounding) return gq_fail_memory(e, sizeof *plan->rounding);
    plan->rounding->kind = k;
    return k->open(plan, options, e);
}

void rounding_free(rounding *r) {
    if (r && r->kind->clear) r->kind->clear(r);
    free(r);
}

void rounding_clean_up(const gq_plan *plan, size_t output) {
    const rounding_kind *k = plan->runners->calibration;
    if (k) k->clean_up(plan, output, false);
}
