#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)((const numbered *)a)->tensor, y = (uintptr_t)((const numbered *)b)->tensor;
    return (x > y) - (x < y);
}

bool calibrator_list_tensors(calibrator *c, gq_error *e) {
    const calibration *of = c->of;
    size_t n = of->n_tensors;
    c->sorted = calloc(n + 1, sizeof *c->sorted);
    c->by_tensor = calloc(of->n_outputs * n + 1, sizeof *c->by_tensor);
    if (!c->sorted || !c->by_tensor) return gq_fail_memory(e, of->n_outputs * n * sizeof *c->by_tensor);
    for (size_t i = 0; i < n; i++) c->sorted[i] = (numbered){of->tensors[i], i};
    qsort(c->sorted, n, sizeof *c->sorted, by_address);
    return true;
}

void calibrator_drop_tensors(calibrator *c) {
    for (size_t i = 0; c->by_tensor && i < c->of->n_outputs * c->of->n_tensors; i++)
        free(c->by_tensor[i].squares);
    free(c->sorted), free(c->by_tensor);
}

size_t calibrator_number_of(const calibrator *c, const model_tensor *t) {
    numbered wanted = {t, 0};
    const numbered *found = bsearch(&wanted, c->sorted, c->of->n_tensors, sizeof *c->sorted, by_address);
    return found ? found->number : SIZE_MAX;
}

tensor_progress *calibrator_progress_at(const calibrator *c, size_t output, size_t tensor) {
    return &c->by_tensor[output * c->of->n_tensors + tensor];
}

uint64_t calibrator_matrices_done(const calibrator *c, const model_tensor *t) {
    /* After the last layer only the output matrix is calibrated: matrices that make a state of several streams have
     * inputs of their own before it. */
    if (!c->sorted) return t == forward_model_sizes(c->of->model)->out ? 0 : UINT64_MAX;
    size_t i = calibrator_number_of(c, t);
    if (i == SIZE_MAX || !c->of->outputs[c->at.output][i].calibrated) return UINT64_MAX;
    uint64_t n = calibrator_progress_at(c, c->at.output, i)->settled, all = shape_matrices(t->ne);
    if (c->of->sample) all = min(all, c->of->sample->matrices);
    return n < all ? n : UINT64_MAX;
}

bool calibrator_record(calibrator *c, size_t output, size_t number, gq_error *e) {
    tensor_progress *p = calibrator_progress_at(c, output, number);
    const uint64_t *ne = c->of->tensors[number]->ne;
    calibrate_entry entry = {
        .tensor = number, .output = (uint32_t)output, .reason = p->reason, .figures = p->figures};
    if (p->squares) entry.squares = (uint32_t)(ne[0] * shape_matrices(ne));
    bool ok = record_add(&c->record, &entry, p->squares, e);
    free(p->squares), p->squares = NULL;
    return ok;
}

/* ---- progress and costs ---- */

void calibrator_begin_piece(calibrator *c, double seconds) {
    sweep_progress_piece(&c->progress, seconds * c->per_second);
}

calibrate_cost calibrator_cost_of(const calibrator *c, size_t output, const model_tensor *t) {
    size_t i = calibrator_number_of(c, t);
    const calibrate_costs *costs = &c->of->costs;
    if (!costs->tensors || i == SIZE_MAX) return (calibrate_cost){0};
    return costs->tensors[output * c->of->n_tensors + i];
}

calibrate_cost calibrator_site_cost(const calibrator *c, const site *s, size_t matrices) {
    calibrate_cost sum = {0};
    double share = (double)matrices / (double)s->matrices;
    for (size_t w = 0; w < s->n_weights; w++) {
        calibrate_cost one = calibrator_cost_of(c, c->at.output, s->weights[w]);
        sum.gather += share * one.gather, sum.cholesky += share * one.cholesky;
    }
    return sum;
}

calibrate_timing *calibrator_timing_of(calibrator *c, const model_tensor *t) {
    size_t i = calibrator_number_of(c, t);
    return c->of->sample && i != SIZE_MAX ? &c->of->sample->tensors[c->at.output * c->of->n_tensors + i]
                                          : &c->untimed;
}
