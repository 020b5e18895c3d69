#include "quantize/run/results.h"

#include <stdlib.h>

gq_results *results_new(const gq_plan *plan, gq_error *e) {
    gq_results *r = calloc(1, sizeof *r);
    gq_loss *losses = calloc(plan->n_outputs * plan->n_tensors + 1, sizeof *losses);
    if (!r || !losses) {
        free(r), free(losses);
        gq_fail_memory(e, plan->n_outputs * plan->n_tensors * sizeof *losses);
        return NULL;
    }
    *r = (gq_results){.n_tensors = plan->n_tensors, .losses = losses, .progress.size = sizeof r->progress};
    return r;
}

void gq_results_free(gq_results *r) {
    if (!r) return;
    words_free(&r->warnings);
    free(r->losses), free(r);
}

gq_loss *results_loss(gq_results *r, size_t output, size_t tensor) {
    return &r->losses[output * r->n_tensors + tensor];
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
