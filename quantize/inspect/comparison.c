#include <stdlib.h>

#include "quantize/inspect/comparison.h"

void gq_comparison_free(gq_comparison *c) {
    if (!c) return;
    model_close(&c->original.model);
    for (size_t i = 0; i < c->n_copies; i++) {
        compared_copy *to = &c->copies[i];
        model_close(&to->file.model);
        free(to->tensors), free(to->numbers), free(to->losses);
    }
    free(c->copies), free(c->origins);
    model_inputs_free(&c->inputs);
    warnings_free(&c->warnings);
    free(c);
}

const gq_summary *gq_comparison_summary(const gq_comparison *c, size_t copy) {
    return &c->copies[copy].summary;
}

const gq_tensor *gq_comparison_tensors(const gq_comparison *c, size_t copy, size_t *n) {
    *n = c->copies[copy].n;
    return c->copies[copy].tensors;
}

const size_t *gq_comparison_numbers(const gq_comparison *c, size_t copy) { return c->copies[copy].numbers; }

const gq_loss *gq_comparison_losses(const gq_comparison *c, size_t copy) { return c->copies[copy].losses; }

const char *const *gq_comparison_warnings(const gq_comparison *c, size_t *n) {
    *n = c->warnings.n;
    return (const char *const *)c->warnings.items;
}

double gq_comparison_seconds(const gq_comparison *c) { return c->seconds; }
