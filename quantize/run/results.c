#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "quantize/plan/rounding.h"
#include "quantize/run/run.h"

/* Names the steps of a rounding that runs ahead, of which nothing is known yet. False: no memory. */
static bool results_name_steps(gq_results *r, const gq_plan *plan) {
    const rounding_kind *k = plan->rounding->kind;
    r->n_steps = k->n_steps;
    r->steps = calloc(plan->n_outputs * r->n_steps + 1, sizeof *r->steps);
    for (size_t o = 0; r->steps && o < plan->n_outputs; o++)
        for (size_t i = 0; i < r->n_steps; i++) *results_step(r, o, i) = k->step(plan->rounding, i);
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
    if (rounding_runs_ahead(plan)) r->roundings = calloc(n, sizeof *r->roundings);
    for (size_t i = 0; r->roundings && i < n; i++) r->roundings[i].why = "";
    if (r->losses && r->sources && r->reused &&
        (!rounding_runs_ahead(plan) || (r->roundings && results_name_steps(r, plan))))
        return r;
    gq_results_free(r);
    return gq_fail_memory(e, n * (sizeof *r->losses + sizeof *r->roundings)), NULL;
}

void gq_results_free(gq_results *r) {
    if (!r) return;
    warnings_free(&r->warnings);
    free(r->losses), free(r->roundings), free(r->steps), free(r->sources), free(r->reused), free(r);
}

/* Return a tensor's place in the results; the results own it. */
static gq_loss *results_loss(gq_results *r, size_t output, size_t tensor) {
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
    return warnings_texts(&r->warnings, n);
}

/* A matrix whose weights are all zero was quantized to some output. */
static bool is_all_zeros(const gq_results *r, const gq_plan *plan, size_t tensor) {
    bool zeros = false;
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const gq_loss *loss = &r->losses[o * r->n_tensors + tensor];
        zeros |= loss->n > 0 && loss->x2 == 0;
    }
    return zeros && plan->sources[tensor].tensor->ne[1] > 1;
}

bool results_warn_of_zeros(gq_results *r, const gq_plan *plan, gq_error *e) {
    size_t n = 0, first = 0;
    for (size_t i = 0; i < plan->n_tensors; i++)
        if (is_all_zeros(r, plan, i) && n++ == 0) first = i;
    return n == 0 || warnings_add(&r->warnings, e,
                                  "%s: all weights of %zu of %zu tensors are zero, first '%s'; a download "
                                  "that stopped looks like "
                                  "this: compare the file's checksum with the publisher's",
                                  plan->model.path, n, plan->n_tensors, plan->sources[first].name);
}

/* ---- error sums: tensors ---- */

/* Reports a tensor whose last chunk is folded. Where this run did not count its first chunk, nothing is
 * reported. */
static void close_tensor(error_sums *t) {
    const gq_plan *plan = t->plan;
    bool whole = plan->chunks.first[t->tensor] >= t->begin;
    for (size_t o = 0; whole && o < plan->n_outputs; o++) {
        gq_loss *loss = results_loss(t->results, o, t->tensor);
        *loss = t->losses[o];
        if (t->callbacks && t->callbacks->tensor_done)
            t->callbacks->tensor_done(t->callbacks->user, o, t->tensor, loss);
    }
    if (whole) t->results->sources[t->tensor] = t->source;
    memset(t->losses, 0, plan->n_outputs * sizeof *t->losses);
    t->source = 0;
    t->tensor++;
}

static void error_sums_add_chunk(gq_loss *loss, const gq_tensor *t, bool same, const chunk *c,
                                 const chunk_sum *s) {
    uint64_t bytes = tensor_type_bytes(tensor_type_of(t->to), t->ne[0], c->n);
    loss->crc32 = checksum_join(loss->crc32, s->crc, bytes);
    if (same) return;
    loss->n += c->n;
    loss->x2 += s->x2, loss->e2 += s->e2;
    if (t->importance == GQ_IMPORTANCE_FULL) loss->wx2 += s->wx2, loss->we2 += s->we2;
    if ((double)s->max_e > loss->max_error) loss->max_error = (double)s->max_e;
}

static void error_sums_fold_chunk(error_sums *t, const chunk_sum *sums) {
    const gq_plan *plan = t->plan;
    const plan_source *source = &plan->sources[t->tensor];
    chunk c = chunk_at(&plan->chunks, t->next, source->tensor->ne);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const gq_tensor *to = &plan->outputs[o].tensors[t->tensor];
        error_sums_add_chunk(&t->losses[o], to, plan_copies(source, to), &c, &sums[o]);
    }
    t->source = checksum_join(t->source, sums[0].source, model_bytes(source->tensor, c.n));
    t->next++;
    if (c.last) close_tensor(t);
}

/* ---- error sums: chunks that wait ---- */

static bool error_sums_grow(error_sums *t, uint64_t chunk_number, gq_error *e) {
    size_t n = t->plan->n_outputs, capacity = t->capacity;
    while (chunk_number - t->next >= capacity)
        if (__builtin_mul_overflow(capacity, 2, &capacity)) return gq_fail_memory(e, capacity);
    bool *waiting = calloc(capacity, sizeof *waiting);
    chunk_sum *sums = calloc(capacity * n, sizeof *sums);
    if (!waiting || !sums) {
        free(waiting), free(sums);
        return gq_fail_memory(e, capacity * n * sizeof *sums);
    }
    for (uint64_t i = t->next; i < t->next + t->capacity; i++) {
        waiting[i % capacity] = t->waiting[i % t->capacity];
        memcpy(&sums[i % capacity * n], &t->sums[i % t->capacity * n], n * sizeof *sums);
    }
    free(t->waiting), free(t->sums);
    t->waiting = waiting, t->sums = sums, t->capacity = capacity;
    return true;
}

bool error_sums_add(error_sums *t, uint64_t chunk_number, const chunk_sum *sums, gq_error *e) {
    size_t n = t->plan->n_outputs;
    if (chunk_number != t->next) {
        if (chunk_number - t->next >= t->capacity && !error_sums_grow(t, chunk_number, e)) return false;
        t->waiting[chunk_number % t->capacity] = true;
        memcpy(&t->sums[chunk_number % t->capacity * n], sums, n * sizeof *sums);
        return true;
    }
    error_sums_fold_chunk(t, sums);
    for (size_t at; t->waiting[at = t->next % t->capacity];) {
        t->waiting[at] = false;
        error_sums_fold_chunk(t, &t->sums[at * n]);
    }
    return true;
}

bool error_sums_new(error_sums *t, const gq_plan *plan, gq_results *results, const gq_callbacks *callbacks,
                    uint64_t begin, gq_error *e) {
    enum { ROOM = 64 };
    *t = (error_sums){.plan = plan,
                      .results = results,
                      .callbacks = callbacks,
                      .begin = begin,
                      .next = begin,
                      .tensor = chunk_tensor(&plan->chunks, begin),
                      .capacity = ROOM};
    t->losses = calloc(plan->n_outputs, sizeof *t->losses);
    t->waiting = calloc(t->capacity, sizeof *t->waiting);
    t->sums = calloc(t->capacity * plan->n_outputs, sizeof *t->sums);
    return (t->losses && t->waiting && t->sums) ||
           gq_fail_memory(e, t->capacity * plan->n_outputs * sizeof *t->sums);
}

void error_sums_free(error_sums *t) { free(t->losses), free(t->waiting), free(t->sums); }
