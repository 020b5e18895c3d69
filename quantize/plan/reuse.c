#include "quantize/plan/reuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/name_index.h"
#include "quantize/input.h"
#include "quantize/plan/digests.h"

static bool reuse_fits_shape(const uint64_t a[4], const uint64_t b[4]) {
    return memcmp(a, b, 4 * sizeof *a) == 0;
}

/* Fills the output's offers that have none yet with the tensors of an earlier output. *n: how many fit. */
static bool offer_tensors(const gq_plan *plan, plan_output *out, const model_source *from,
                          const uint8_t *digests, size_t *n, gq_error *e) {
    name_index by_name = {0};
    uint64_t i;
    bool ok = name_index_all(&by_name, out->tensors, sizeof *out->tensors, plan->n_tensors, e);
    for (uint64_t k = 0; ok && k < from->n_tensors; k++) {
        const model_tensor *t = from->tensors[k];
        tensor_digest d;
        memcpy(&d, digests + k * sizeof d, sizeof d);
        if (!d.made_by || !name_index_find(&by_name, out->tensors, sizeof *out->tensors, t->name, &i) ||
            t->type->id != out->tensors[i].to || !reuse_fits_shape(t->ne, out->tensors[i].ne) ||
            d.made_by != digest_made_by(plan, out, i))
            continue;
        ++*n;
        if (!out->offers[i].from) out->offers[i] = (reuse_offer){from, t, true, d.source, d.bytes};
    }
    name_index_free(&by_name);
    return ok;
}

static bool offer_to_all(gq_plan *plan, const model_source *from, gq_error *e) {
    const uint8_t *digests = digests_find(from);
    size_t n = 0;
    if (!digests)
        return warnings_add(&plan->warnings, e,
                            "%s: nothing of it is reused, as it has no digests of its tensors", from->path);
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (!offer_tensors(plan, &plan->outputs[o], from, digests, &n, e)) return false;
    return n || warnings_add(&plan->warnings, e,
                             "%s: nothing of it is reused, as no tensor has the same type, settings and "
                             "importance data",
                             from->path);
}

bool plan_reuse(gq_plan *plan, const gq_options *options, gq_error *e) {
    const gq_list *paths = &options->reuse;
    if (!paths->n) return true;
    plan->reused = calloc(paths->n, sizeof *plan->reused);
    if (!plan->reused) return gq_fail_memory(e, paths->n * sizeof *plan->reused);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        plan->outputs[o].offers = calloc(plan->n_tensors + 1, sizeof *plan->outputs[o].offers);
        if (!plan->outputs[o].offers)
            return gq_fail_memory(e, plan->n_tensors * sizeof *plan->outputs[o].offers);
    }
    for (size_t i = 0; i < paths->n; i++) {
        model_source *m = &plan->reused[i];
        if (!input_open(m, paths->items[i], e)) return *m = (model_source){.path = NULL}, false;
        plan->n_reused++;
        if (!offer_to_all(plan, m, e)) return false;
    }
    return true;
}

bool plan_reused_unchanged(const gq_plan *plan, gq_error *e) {
    for (size_t i = 0; i < plan->n_reused; i++)
        if (!model_unchanged(&plan->reused[i], e)) return false;
    return true;
}

uint64_t gq_plan_reusable(const gq_plan *plan, size_t output, uint64_t *bytes) {
    const plan_output *out = &plan->outputs[output];
    uint64_t n = 0;
    *bytes = 0;
    for (size_t i = 0; out->offers && i < plan->n_tensors; i++)
        if (out->offers[i].from) n++, *bytes += out->tensors[i].out_bytes;
    return n;
}
