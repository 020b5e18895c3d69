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

/* ---- records of finished steps ---- */

bool record_add(calibrate_record *r, const calibrate_entry *entry, const float *squares, gq_error *e) {
    size_t more = entry->squares * sizeof *squares;
    if (!memory_grow(&r->bytes, &r->capacity, r->n + sizeof *entry + more, 1, e)) return false;
    memcpy(r->bytes + r->n, entry, sizeof *entry);
    if (more) memcpy(r->bytes + r->n + sizeof *entry, squares, more);
    r->n += sizeof *entry + more;
    return true;
}

static bool record_checksum(const calibration *job, const calibrate_entry *entry, uint32_t *crc,
                            gq_error *e) {
    uint8_t piece[1 << 16];
    const rounding_store *store = &job->store;
    uint64_t left = job->outputs[entry->output][entry->tensor].out_bytes;
    *crc = 0;
    for (uint64_t at = 0, n; left > 0; at += n, left -= n) {
        n = left < sizeof piece ? left : sizeof piece;
        if (!store->read(store->data, entry->output, entry->tensor, at, piece, n, e)) return false;
        *crc = checksum_add(*crc, piece, n);
    }
    return true;
}

bool record_sum_up(calibrate_record *r, const calibration *job, gq_error *e) {
    calibrate_entry entry;
    for (size_t at = 0; at < r->n; at += sizeof entry + entry.squares * sizeof(float)) {
        memcpy(&entry, r->bytes + at, sizeof entry);
        if (!record_checksum(job, &entry, &entry.crc, e)) return false;
        memcpy(r->bytes + at, &entry, sizeof entry);
    }
    return true;
}

/* The floats of an entry: of all columns of all matrices, or none. */
static bool record_squares_fit(const calibrate_entry *entry, const model_tensor *t) {
    return !entry->squares || entry->squares == t->ne[0] * shape_matrices(t->ne);
}

bool record_next(const uint8_t *bytes, uint64_t n, uint64_t *at, const calibration *job,
                 calibrate_entry *entry, const uint8_t **squares) {
    if (n - *at < sizeof *entry) return false;
    memcpy(entry, bytes + *at, sizeof *entry);
    if (entry->output >= job->n_outputs || entry->tensor >= job->n_tensors ||
        entry->reason >= ROUND_REASONS || !job->outputs[entry->output][entry->tensor].calibrated ||
        !record_squares_fit(entry, job->tensors[entry->tensor]) ||
        (n - *at - sizeof *entry) / sizeof(float) < entry->squares)
        return false;
    if (squares) *squares = bytes + *at + sizeof *entry;
    *at += sizeof *entry + entry->squares * sizeof(float);
    return true;
}

bool record_is_in_file(const calibrate_entry *entry, const calibration *job, bool *holds, gq_error *e) {
    uint32_t crc = entry->crc;
    bool ok = !job->store.read || record_checksum(job, entry, &crc, e);
    *holds = crc == entry->crc;
    return ok;
}
