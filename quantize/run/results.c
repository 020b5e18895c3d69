#include "quantize/run/results.h"

#include <stdlib.h>

gq_results *results_new(const gq_plan *plan, gq_error *e) {
    size_t n = plan->n_outputs * plan->n_tensors + 1;
    gq_results *r = calloc(1, sizeof *r);
    if (!r) return gq_fail_memory(e, sizeof *r), NULL;
    r->n_tensors = plan->n_tensors, r->progress.size = sizeof r->progress;
    r->losses = calloc(n, sizeof *r->losses);
    if (plan->calibration) r->roundings = calloc(n, sizeof *r->roundings);
    for (size_t i = 0; r->roundings && i < n; i++) r->roundings[i].why = "";
    if (r->losses && (r->roundings || !plan->calibration)) return r;
    gq_results_free(r);
    return gq_fail_memory(e, n * (sizeof *r->losses + sizeof *r->roundings)), NULL;
}

void gq_results_free(gq_results *r) {
    if (!r) return;
    warnings_free(&r->warnings);
    free(r->losses), free(r->roundings), free(r);
}

gq_loss *results_loss(gq_results *r, size_t output, size_t tensor) {
    return &r->losses[output * r->n_tensors + tensor];
}

gq_rounding *results_rounding(gq_results *r, size_t output, size_t tensor) {
    return &r->roundings[output * r->n_tensors + tensor];
}

const gq_rounding *gq_results_roundings(const gq_results *r, size_t output, size_t *n) {
    *n = r->roundings ? r->n_tensors : 0;
    return r->roundings ? &r->roundings[output * r->n_tensors] : NULL;
}

const gq_loss *gq_results_losses(const gq_results *r, size_t output, size_t *n) {
    *n = r->n_tensors;
    return &r->losses[output * r->n_tensors];
}

const gq_progress *gq_results_progress(const gq_results *r) { return &r->progress; }

const char *const *gq_results_warnings(const gq_results *r, size_t *n) {
    *n = r->warnings.n;
    return (const char *const *)r->warnings.items;
}
