#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "quantize/run/run.h"

enum {
    /* 8 chunks are 16 MiB of 16-bit weights: some milliseconds of a fast disk beyond what the workers hold. */
    AHEAD = 8,
};

/* Returns chunk i's tensor as the input has it, and the elements of that which the chunk needs. A transposed
 * chunk needs elements all over its matrices, so whole matrices belong to the chunk that begins them. */
static const model_tensor *input_range(const gq_plan *plan, uint64_t i, uint64_t *first, uint64_t *n) {
    const plan_source *s = &plan->sources[chunk_tensor(&plan->chunks, i)];
    const model_tensor *t = s->tensor;
    chunk c = chunk_at(&plan->chunks, i, t->ne);
    uint64_t begin = c.first, end = c.first + c.n, matrix = t->ne[0] * t->ne[1];
    if (plan_transposes(s))
        begin = (begin + matrix - 1) / matrix * matrix, end = (end + matrix - 1) / matrix * matrix;
    *first = begin, *n = end - begin;
    return s->stored;
}

bool cache_new(cache *c, const gq_plan *plan, uint64_t begin, uint64_t end, gq_error *e) {
    uint64_t bytes = 0;
    for (size_t o = 0; o < plan->n_outputs; o++) bytes += plan->outputs[o].summary.file_bytes;
    bytes += model_file_bytes(&plan->model);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *c = (cache){.plan = plan, .begin = begin, .end = end};
    c->large = bytes > (uint64_t)pages * (uint64_t)page / 2;
    atomic_init(&c->asked, begin);
    if (!c->large) return true;
    c->was_cold = calloc((end - begin) / 8 + 1, 1);
    return c->was_cold ? true : gq_fail_memory(e, (end - begin) / 8 + 1);
}

void cache_free(cache *c) { free((void *)c->was_cold); }

static void ask_for(cache *c, uint64_t i) {
    uint64_t first, n, bit = i - c->begin;
    const model_tensor *t = input_range(c->plan, i, &first, &n);
    bool scattered = plan_transposes(&c->plan->sources[chunk_tensor(&c->plan->chunks, i)]);
    /* Scattered input serves the chunks that follow, too, so it is not given back. */
    if (c->large && !scattered && model_is_cold(&c->plan->model, t, first, n))
        atomic_fetch_or(&c->was_cold[bit / 8], (uint8_t)(1 << bit % 8));
    model_advise(&c->plan->model, t, first, n, MODEL_WILL_NEED);
}

void cache_ahead(cache *c, uint64_t i) {
    uint64_t until = c->end - i > AHEAD ? i + AHEAD + 1 : c->end;
    for (uint64_t asked = atomic_load(&c->asked); asked < until;) {
        uint64_t next = asked > i ? asked : i; /* an earlier run may have done what lies between */
        if (atomic_compare_exchange_weak(&c->asked, &asked, next + 1)) ask_for(c, next), asked = next + 1;
    }
}

void cache_read(const cache *c, uint64_t i) {
    uint64_t first, n, bit = i - c->begin;
    if (!c->large || !(atomic_load(&c->was_cold[bit / 8]) >> bit % 8 & 1)) return;
    const model_tensor *t = input_range(c->plan, i, &first, &n);
    model_advise(&c->plan->model, t, first, n, MODEL_DONT_NEED);
}

void cache_written(const cache *c, const output_set *outputs, uint64_t i) {
    if (!c->large) return;
    const gq_plan *plan = c->plan;
    size_t tensor = chunk_tensor(&plan->chunks, i);
    const uint64_t *ne = plan->sources[tensor].tensor->ne;
    chunk k = chunk_at(&plan->chunks, i, ne);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const plan_place *p = &plan->outputs[o].places[tensor];
        const tensor_type *t = tensor_type_of(plan->outputs[o].tensors[tensor].to);
        uint64_t at = p->offset + tensor_type_bytes(t, ne[0], k.first);
        posix_fadvise(outputs->files[outputs->first[o] + p->shard].fd, (off_t)at,
                      (off_t)tensor_type_bytes(t, ne[0], k.n), POSIX_FADV_DONTNEED);
    }
}
