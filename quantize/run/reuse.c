/* Which tensors of earlier outputs a run copies. A digest in a file is a claim; three things prove it here:
 * the source's weights have the checksum that they had, the copy's bytes have theirs, and in each chunk of
 * about a million weights the first strip, encoded now, gives the copy's bytes. The last one finds another
 * version's encoders, and files whose digests were made up. It costs a sixteenth of encoding. */
#include "quantize/run/reuse.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "base/sized.h"
#include "quantize/plan/reuse.h"
#include "quantize/run/work.h"
#include "quantize/strips/schedule.h"

/* ---- reading ---- */

typedef struct reuse_job {
    reuse_reading *reading;
    work_scratches scratches;
} reuse_job;

bool reuse_reading_new(reuse_reading *r, const gq_plan *plan, gq_error *e) {
    const size_t n = plan->n_tensors, all = plan->n_outputs * n + 1;
    *r = (reuse_reading){.plan = plan,
                         .offers = calloc(plan->n_outputs, sizeof *r->offers),
                         .sources = calloc(n + 1, sizeof *r->sources),
                         .bytes = calloc(all, sizeof *r->bytes),
                         .unlike = calloc(all, sizeof *r->unlike)};
    return (r->offers && r->sources && r->bytes && r->unlike) || gq_fail_memory(e, all * sizeof *r->bytes);
}

void reuse_reading_free(reuse_reading *r) {
    free((void *)r->offers), free(r->sources), free(r->bytes), free(r->unlike);
    *r = (reuse_reading){.plan = NULL};
}

static const reuse_offer *offer_of(const reuse_reading *r, size_t output, size_t tensor) {
    const reuse_offer *offer = r->offers[output] ? &r->offers[output][tensor] : NULL;
    return offer && offer->from ? offer : NULL;
}

static bool reuse_is_offered(const reuse_reading *r, size_t tensor) {
    for (size_t o = 0; o < r->plan->n_outputs; o++)
        if (offer_of(r, o, tensor)) return true;
    return false;
}

static bool reuse_check_chunk(void *arg, work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    const gq_plan *plan = j->reading->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    p->weights = 1;
    if (!reuse_is_offered(j->reading, tensor)) return true;
    work_tensor *t = work_tensor_open(plan, tensor, NULL, e);
    work_scratch scratch = work_scratch_in(&j->scratches, p->scratch);
    bool ok = t && work_check_offers(t, j->reading->offers, p->number, &scratch, e);
    chunk c = chunk_at(&plan->chunks, p->number, plan->sources[tensor].tensor->ne);
    p->bytes = model_bytes(plan->sources[tensor].tensor, c.n), p->weights = c.n;
    work_tensor_close(t);
    return ok;
}

/* Adds a chunk's share of a tensor's checksum; chunks come in any order. */
static uint32_t share_of(uint32_t crc, const model_tensor *t, const tensor_type *type, const chunk *c) {
    return checksum_join(crc, 0, tensor_type_bytes(type, t->ne[0], shape_elements(t->ne) - c->first - c->n));
}

static bool reuse_fold_chunk(void *arg, const work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    reuse_reading *r = j->reading;
    const gq_plan *plan = r->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    const model_tensor *t = plan->sources[tensor].tensor;
    chunk c = chunk_at(&plan->chunks, p->number, t->ne);
    (void)e;
    if (!reuse_is_offered(r, tensor)) return true;
    const work_scratch scratch = work_scratch_in(&j->scratches, p->scratch);
    r->sources[tensor] ^= share_of(scratch.sums->source, t, t->type, &c);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const tensor_type *type = tensor_type_of(plan->outputs[o].tensors[tensor].to);
        r->bytes[o * plan->n_tensors + tensor] ^= share_of(scratch.sums[o].crc, t, type, &c);
        r->unlike[o * plan->n_tensors + tensor] |= scratch.errors[o].n == WORK_UNLIKE;
    }
    return true;
}

bool reuse_read(reuse_reading *r, uint64_t begin, uint64_t end, const gq_callbacks *callbacks, gq_error *e) {
    const gq_plan *plan = r->plan;
    reuse_job j = {.reading = r};
    gq_callbacks called = callbacks ? *callbacks : (gq_callbacks){0};
    schedule s = {0};
    called.tensor_done = NULL; /* none is, yet */
    if (begin >= end) return true;
    size_t first = chunk_tensor(&plan->chunks, begin), last = chunk_tensor(&plan->chunks, end - 1);
    work_scratches_measure(&j.scratches, plan);
    bool ok = schedule_start(&s, plan->threads, j.scratches.bytes, &called, e);
    for (size_t i = first; i <= last; i++)
        if (reuse_is_offered(r, i)) s.progress.bytes_total += plan->sources[i].tensor->size;
    ok = ok && schedule_run(&s,
                            &(schedule_job){plan->chunks.first[first], plan->chunks.first[last + 1],
                                            reuse_check_chunk, reuse_fold_chunk, &j},
                            e);
    schedule_end(&s);
    return ok;
}

/* ---- what it proves ---- */

bool reuse_proves(const reuse_reading *r, size_t output, size_t tensor, gq_error *why) {
    const gq_plan *plan = r->plan;
    const plan_source *source = &plan->sources[tensor];
    const gq_tensor *t = &plan->outputs[output].tensors[tensor];
    const reuse_offer *offer = offer_of(r, output, tensor);
    const size_t at = output * plan->n_tensors + tensor;
    if (!offer) return gq_fail(why, "it has no %s that could be the same", t->name);
    if (offer->is_digested && offer->bytes != r->bytes[at])
        return gq_fail(why, "it is damaged: the bytes of %s are not those that were written", t->name);
    if (plan_copies(source, t))
        return r->bytes[at] == r->sources[tensor] ||
               gq_fail(why, "the bytes of %s are not those of %s", t->name, plan_input(plan));
    if (t->calibrated || plan_transposes(source))
        return offer->is_digested ||
               gq_fail(why, "it has no digests, and nothing else tells whether %s is what would be written",
                       t->name);
    if (offer->is_digested && offer->source != r->sources[tensor])
        return gq_fail(why, "it was made of other weights: %s of %s differs", source->stored->name,
                       plan_input(plan));
    return !r->unlike[at] ||
           gq_fail(why,
                   offer->is_digested
                       ? "encoding %s gives other bytes: another version of gquant made it"
                       : "encoding %s gives other bytes: it is damaged, or other weights or settings made it",
                   t->name);
}

static void reuse_decide_tensors(const reuse_reading *r, size_t first, size_t last, bool *reused,
                                 gq_results *results) {
    const gq_plan *plan = r->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = first; i <= last; i++) {
            bool *is = &reused[o * plan->n_tensors + i];
            *is = reuse_proves(r, o, i, NULL);
            results->reused[2 * o] += *is;
            results->reused[2 * o + 1] += *is ? plan->outputs[o].tensors[i].out_bytes : 0;
        }
}

bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e) {
    reuse_reading r;
    bool *reused = calloc(plan->n_outputs * plan->n_tensors + 1, sizeof *reused);
    bool ok =
        reuse_reading_new(&r, plan, e) && (reused || gq_fail_memory(e, plan->n_outputs * plan->n_tensors));
    for (size_t o = 0; ok && o < plan->n_outputs; o++) r.offers[o] = plan->outputs[o].offers;
    ok = ok && reuse_read(&r, begin, end, callbacks, e);
    if (ok && begin < end)
        reuse_decide_tensors(&r, chunk_tensor(&plan->chunks, begin), chunk_tensor(&plan->chunks, end - 1),
                             reused, results);
    reuse_reading_free(&r);
    if (ok) return reused;
    free(reused);
    return NULL;
}

gq_results *gq_reuse_check(const gq_plan *plan, const gq_callbacks *callbacks, gq_error *e) {
    gq_callbacks called;
    if (!SIZED_TAKE(called, callbacks, e)) return NULL;
    gq_results *results = results_new(plan, e);
    bool *reused = results && plan->n_reused
                       ? reuse_check(plan, 0, plan->chunks.first[plan->n_tensors], &called, results, e)
                       : NULL;
    bool ok = results && (reused || !plan->n_reused);
    free(reused);
    if (ok) return results;
    gq_results_free(results);
    return NULL;
}
