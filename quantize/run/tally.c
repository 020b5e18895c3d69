#include "quantize/run/tally.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- tensors ---- */

/* Whether the tensor is whole in the counted range; the losses of others stay zero. */
static bool counted(const tally *t, size_t tensor) {
    return t->plan->chunks.first[tensor] >= t->begin && t->plan->chunks.first[tensor + 1] <= t->end;
}

/* Tell of all tensors whose last chunk is folded. */
static void close_tensors(tally *t) {
    gq_plan *plan = t->plan;
    for (; t->tensor < plan->n_tensors && plan->chunks.first[t->tensor + 1] <= t->next; t->tensor++)
        for (size_t o = 0; o < plan->n_outputs; o++)
            if (counted(t, t->tensor) && t->callbacks && t->callbacks->tensor_done)
                t->callbacks->tensor_done(t->callbacks->user, o, t->tensor,
                                          &plan->outputs[o].losses[t->tensor]);
}

static void fold(gq_loss *loss, const gq_tensor *t, const chunk *c, const chunk_sum *s) {
    uint64_t bytes = gguf_type_bytes(gguf_type_of(t->to), c->n);
    loss->crc32 = (uint32_t)crc32_combine(loss->crc32, s->crc, (z_off_t)bytes);
    if (t->from == t->to) return;
    loss->n += c->n;
    loss->x2 += s->x2, loss->e2 += s->e2;
    if (t->importance == GQ_IMPORTANCE_FULL) loss->wx2 += s->wx2, loss->we2 += s->we2;
    if ((double)s->max_e > loss->max_error) loss->max_error = (double)s->max_e;
}

static void fold_chunk(tally *t, const chunk_sum *sums) {
    gq_plan *plan = t->plan;
    size_t tensor = chunk_tensor(&plan->chunks, t->next);
    chunk c = chunk_at(&plan->chunks, t->next, plan->sources[tensor].tensor->ne);
    for (size_t o = 0; counted(t, tensor) && o < plan->n_outputs; o++)
        fold(&plan->outputs[o].losses[tensor], &plan->outputs[o].tensors[tensor], &c, &sums[o]);
    t->next++;
    close_tensors(t);
}

/* ---- chunks that wait ---- */

static bool grow(tally *t, uint64_t chunk_number, gq_error *e) {
    size_t n = t->plan->n_outputs, room = t->room;
    while (chunk_number - t->next >= room)
        if (__builtin_mul_overflow(room, 2, &room)) return gq_fail_memory(e, room);
    bool *waiting = calloc(room, sizeof *waiting);
    chunk_sum *sums = calloc(room * n, sizeof *sums);
    if (!waiting || !sums) {
        free(waiting), free(sums);
        return gq_fail_memory(e, room * n * sizeof *sums);
    }
    for (uint64_t i = t->next; i < t->next + t->room; i++) {
        waiting[i % room] = t->waiting[i % t->room];
        memcpy(&sums[i % room * n], &t->sums[i % t->room * n], n * sizeof *sums);
    }
    free(t->waiting), free(t->sums);
    t->waiting = waiting, t->sums = sums, t->room = room;
    return true;
}

bool tally_add(tally *t, uint64_t chunk_number, const chunk_sum *sums, gq_error *e) {
    size_t n = t->plan->n_outputs;
    if (chunk_number != t->next) {
        if (chunk_number - t->next >= t->room && !grow(t, chunk_number, e)) return false;
        t->waiting[chunk_number % t->room] = true;
        memcpy(&t->sums[chunk_number % t->room * n], sums, n * sizeof *sums);
        return true;
    }
    fold_chunk(t, sums);
    for (size_t at; t->waiting[at = t->next % t->room];) {
        t->waiting[at] = false;
        fold_chunk(t, &t->sums[at * n]);
    }
    return true;
}

bool tally_new(tally *t, gq_plan *plan, const gq_callbacks *callbacks, uint64_t begin, uint64_t end,
               gq_error *e) {
    enum { ROOM = 64 };
    *t = (tally){
        .plan = plan, .callbacks = callbacks, .begin = begin, .next = begin, .end = end, .room = ROOM};
    for (size_t o = 0; o < plan->n_outputs; o++)
        memset(plan->outputs[o].losses, 0, plan->n_tensors * sizeof *plan->outputs[o].losses);
    t->waiting = calloc(t->room, sizeof *t->waiting);
    t->sums = calloc(t->room * plan->n_outputs, sizeof *t->sums);
    if (!t->waiting || !t->sums) return gq_fail_memory(e, t->room * plan->n_outputs * sizeof *t->sums);
    return true;
}

void tally_free(tally *t) { free(t->waiting), free(t->sums); }
