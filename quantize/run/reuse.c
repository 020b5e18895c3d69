/* Which tensors of earlier outputs a run copies. A digest in a file is a claim; three things prove it here:
 * the source's weights have the checksum that they had, the copy's bytes have theirs, and in each chunk of
 * about a million weights the first strip, encoded now, gives the copy's bytes. The last one finds another
 * version's encoders, and files whose digests were made up. It costs a sixteenth of encoding. */
#include "quantize/run/reuse.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "quantize/plan/reuse.h"
#include "quantize/run/work.h"
#include "quantize/sized.h"
#include "quantize/strips/schedule.h"

typedef struct reuse_job {
    const gq_plan *plan;
    work_scratches scratches;
    uint32_t *sources, *bytes; /* checksums so far: per tensor; per output and tensor */
} reuse_job;

static bool reuse_is_offered(const gq_plan *plan, size_t tensor) {
    for (size_t o = 0; o < plan->n_outputs; o++)
        if (plan->outputs[o].offers[tensor].from) return true;
    return false;
}

static bool reuse_check_chunk(void *arg, work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    const gq_plan *plan = j->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    p->weights = 1;
    if (!reuse_is_offered(plan, tensor)) return true;
    work_tensor *t = work_tensor_open(plan, tensor, NULL, e);
    work_scratch scratch = work_scratch_in(&j->scratches, p->scratch);
    bool ok = t && work_check_offers(t, p->number, &scratch, e);
    chunk c = chunk_at(&plan->chunks, p->number, plan->sources[tensor].tensor->ne);
    p->bytes = gguf_type_bytes(plan->sources[tensor].tensor->type, c.n), p->weights = c.n;
    work_tensor_close(t);
    return ok;
}

/* Adds a chunk's share of a tensor's checksum; chunks come in any order. */
static uint32_t share_of(uint32_t crc, const model_tensor *t, const gguf_type *type, const chunk *c) {
    return checksum_join(crc, 0, gguf_type_bytes(type, shape_elements(t->ne) - c->first - c->n));
}

static bool reuse_fold_chunk(void *arg, const work_piece *p, gq_error *e) {
    const reuse_job *j = arg;
    const gq_plan *plan = j->plan;
    size_t tensor = chunk_tensor(&plan->chunks, p->number);
    const model_tensor *t = plan->sources[tensor].tensor;
    chunk c = chunk_at(&plan->chunks, p->number, t->ne);
    (void)e;
    if (!reuse_is_offered(plan, tensor)) return true;
    const chunk_sum *sums = work_scratch_in(&j->scratches, p->scratch).sums;
    j->sources[tensor] ^= share_of(sums->source, t, t->type, &c);
    for (size_t o = 0; o < plan->n_outputs; o++)
        j->bytes[o * plan->n_tensors + tensor] ^=
            share_of(sums[o].crc, t, gguf_type_of(plan->outputs[o].tensors[tensor].to), &c);
    return true;
}

static void decide(const reuse_job *j, size_t first, size_t last, bool *reused, gq_results *results) {
    const gq_plan *plan = j->plan;
    for (size_t o = 0; o < plan->n_outputs; o++)
        for (size_t i = first; i <= last; i++) {
            const reuse_offer *offer = &plan->outputs[o].offers[i];
            bool *is = &reused[o * plan->n_tensors + i];
            *is = offer->from && offer->source == j->sources[i] &&
                  offer->bytes == j->bytes[o * plan->n_tensors + i];
            results->reused[2 * o] += *is;
            results->reused[2 * o + 1] += *is ? plan->outputs[o].tensors[i].out_bytes : 0;
        }
}

bool *reuse_check(const gq_plan *plan, uint64_t begin, uint64_t end, const gq_callbacks *callbacks,
                  gq_results *results, gq_error *e) {
    const size_t n = plan->n_tensors, all = plan->n_outputs * n + 1;
    reuse_job j = {
        .plan = plan, .sources = calloc(n + 1, sizeof *j.sources), .bytes = calloc(all, sizeof *j.bytes)};
    bool *reused = calloc(all, sizeof *reused), ok = reused && j.sources && j.bytes;
    gq_callbacks called = callbacks ? *callbacks : (gq_callbacks){0};
    schedule s = {0};
    called.tensor_done = NULL; /* none is, yet */
    if (!ok) gq_fail_memory(e, all * sizeof *j.bytes);
    if (ok && begin < end) {
        size_t first = chunk_tensor(&plan->chunks, begin), last = chunk_tensor(&plan->chunks, end - 1);
        work_scratches_measure(&j.scratches, plan);
        ok = schedule_start(&s, plan->threads, j.scratches.bytes, &called, e);
        for (size_t i = first; i <= last; i++)
            if (reuse_is_offered(plan, i)) s.progress.bytes_total += plan->sources[i].tensor->size;
        ok = ok && schedule_run(&s,
                                &(schedule_job){plan->chunks.first[first], plan->chunks.first[last + 1],
                                                reuse_check_chunk, reuse_fold_chunk, &j},
                                e);
        if (ok) decide(&j, first, last, reused, results);
        schedule_end(&s);
    }
    free(j.sources), free(j.bytes);
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
