#include "quantize/run/results.h"

#include <stdlib.h>

#include "quantize/plan/calibration/calibration.h"

/* Names the steps of a calibration, of which nothing is known yet. False: no memory. */
static bool results_name_steps(gq_results *r, const gq_plan *plan) {
    r->n_steps = CALIBRATE_STEPS;
    r->steps = calloc(plan->n_outputs * r->n_steps + 1, sizeof *r->steps);
    for (size_t o = 0; r->steps && o < plan->n_outputs; o++)
        for (size_t i = 0; i < r->n_steps; i++)
            *results_step(r, o, i) =
                (gq_step){.name = calibrate_steps[i].name,
                          .what = calibrate_steps[i].what,
                          .on = calibration_does(&plan->calibration->settings, (calibrate_step)i)};
    return r->steps;
}

gq_results *results_new(const gq_plan *plan, gq_error *e) {
    size_t n = plan->n_outputs * plan->n_tensors + 1;
    gq_results *r = calloc(1, sizeof *r);
    if (!r) return gq_fail_memory(e, sizeof *r), NULL;
    r->n_tensors = plan->n_tensors, r->progress.size = sizeof r->progress;
    r->losses = calloc(n, sizeof *r->losses);
    r->sources = calloc(plan->n_tensors + 1, sizeof *r->sources);
    r->reused = calloc(plan->n_outputs, 2 * sizeof *r->reused);
    if (plan->calibration) r->roundings = calloc(n, sizeof *r->roundings);
    for (size_t i = 0; r->roundings && i < n; i++) r->roundings[i].why = "";
    if (r->losses && r->sources && r->reused &&
        (!plan->calibration || (r->roundings && results_name_steps(r, plan))))
        return r;
    gq_results_free(r);
    return gq_fail_memory(e, n * (sizeof *r->losses + sizeof *r->roundings)), NULL;
}

void gq_results_free(gq_results *r) {
    if (!r) return;
    warnings_free(&r->warnings);
    free(r->losses), free(r->roundings), free(r->steps), free(r->sources), free(r->reused), free(r);
}

gq_loss *results_loss(gq_results *r, size_t output, size_t tensor) {
    return &r->losses[output * r->n_tensors + tensor];
}

gq_rounding *results_rounding(gq_results *r, size_t output, size_t tensor) {
    return &r->roundings[output * r->n_tensors + tensor];
}

gq_step *results_step(gq_results *r, size_t output, size_t step) {
    return &r->steps[output * r->n_steps + step];
}

const gq_step *gq_results_steps(const gq_results *r, size_t output, size_t *n) {
    *n = r->steps ? r->n_steps : 0;
    return r->steps ? &r->steps[output * r->n_steps] : NULL;
}

const gq_rounding *gq_results_roundings(const gq_results *r, size_t output, size_t *n) {
    *n = r->roundings ? r->n_tensors : 0;
    return r->roundings ? &r->roundings[output * r->n_tensors] : NULL;
}

const gq_loss *gq_results_losses(const gq_results *r, size_t output, size_t *n) {
    *n = r->n_tensors;
    return &r->losses[output * r->n_tensors];
}

uint64_t gq_results_reused(const gq_results *r, size_t output, uint64_t *bytes) {
    *bytes = r->reused[2 * output + 1];
    return r->reused[2 * output];
}

const gq_progress *gq_results_progress(const gq_results *r) { return &r->progress; }

const char *const *gq_results_warnings(const gq_results *r, size_t *n) {
    *n = r->warnings.n;
    return (const char *const *)r->warnings.items;
}
