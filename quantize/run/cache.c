#include "quantize/run/cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    /* 8 chunks are 16 MiB of 16-bit weights: some milliseconds of a fast disk beyond what the workers hold.
     */
    AHEAD = 8,
    LARGEST_CHUNK = 8 * CHUNK_ELEMENTS, /* bytes: 64-bit elements */
    SMALLEST_PAGE = 4096,
    ASKED = 1 << 20, /* bytes at once */
};

/* Where a chunk of the input lies. What is transposed is spread over a whole matrix: of its chunks each that
 * begins matrices has these. */
static int input_range(const gq_plan *plan, uint64_t i, uint64_t *offset, uint64_t *n) {
    const plan_source *s = &plan->sources[chunk_tensor(&plan->chunks, i)];
    const gguf_tensor *t = s->tensor;
    chunk c = chunk_at(&plan->chunks, i, t->ne);
    uint64_t begin = c.first, end = c.first + c.n, matrix = t->ne[0] * t->ne[1];
    if (plan_transposes(s))
        begin = (begin + matrix - 1) / matrix * matrix, end = (end + matrix - 1) / matrix * matrix;
    *offset = t->offset + gguf_type_bytes(t->type, begin);
    *n = gguf_type_bytes(t->type, end - begin);
    return plan->model.shards[t->shard].file.fd;
}

bool cache_new(cache *c, const gq_plan *plan, uint64_t begin, uint64_t end, gq_error *e) {
    uint64_t bytes = 0;
    for (size_t o = 0; o < plan->n_outputs; o++) bytes += plan->outputs[o].summary.file_bytes;
    for (uint32_t s = 0; s < plan->model.n_shards; s++) bytes += plan->model.shards[s].file.size;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *c = (cache){.plan = plan, .begin = begin, .end = end};
    c->large = bytes > (uint64_t)pages * (uint64_t)page / 2;
    atomic_init(&c->asked, begin);
    if (!c->large) return true;
    c->was_cold = calloc((end - begin) / 8 + 1, 1);
    return c->was_cold ? true : gq_fail_memory(e, (end - begin) / 8 + 1);
}

void cache_free(cache *c) { free((void *)c->was_cold); }

/* Whether nearly nothing of the range is cached (its neighbours' pages reach into it). A mapping that is
 * never touched costs nothing; of files that the user may not write the kernel says that all is cached, and
 * then it stays cached. */
static bool is_cold(int fd, uint64_t offset, uint64_t n) {
    unsigned char resident[LARGEST_CHUNK / SMALLEST_PAGE + 1];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = offset / page * page,
             length = offset + n - start;
    size_t pages = (length + page - 1) / page, cached = 0;
    if (pages > sizeof resident) return false;
    void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)start);
    if (at == MAP_FAILED) return false;
    bool known = mincore(at, length, resident) == 0;
    for (size_t i = 0; known && i < pages; i++) cached += resident[i] & 1;
    munmap(at, length);
    return known && cached < pages / 4 + 1;
}

static void ask_for(cache *c, uint64_t i) {
    uint64_t offset, n, bit = i - c->begin;
    int fd = input_range(c->plan, i, &offset, &n);
    bool scattered = plan_transposes(&c->plan->sources[chunk_tensor(&c->plan->chunks, i)]);
    /* The chunks that follow need what is scattered, too: it is not given back. */
    if (c->large && !scattered && is_cold(fd, offset, n))
        atomic_fetch_or(&c->was_cold[bit / 8], (uint8_t)(1 << bit % 8));
    for (uint64_t at = 0; at < n; at += ASKED) /* of more the kernel reads the beginning only */
        posix_fadvise(fd, (off_t)(offset + at), (off_t)(n - at < ASKED ? n - at : ASKED),
                      POSIX_FADV_WILLNEED);
}

void cache_ahead(cache *c, uint64_t i) {
    uint64_t until = c->end - i > AHEAD ? i + AHEAD + 1 : c->end;
    for (uint64_t asked = atomic_load(&c->asked); asked < until;) {
        uint64_t next = asked > i ? asked : i; /* an earlier run may have done what lies between */
        if (atomic_compare_exchange_weak(&c->asked, &asked, next + 1)) ask_for(c, next), asked = next + 1;
    }
}

void cache_read(const cache *c, uint64_t i) {
    uint64_t offset, n, bit = i - c->begin;
    if (!c->large || !(atomic_load(&c->was_cold[bit / 8]) >> bit % 8 & 1)) return;
    int fd = input_range(c->plan, i, &offset, &n);
    posix_fadvise(fd, (off_t)offset, (off_t)n, POSIX_FADV_DONTNEED);
}

void cache_written(const cache *c, const output_set *outputs, uint64_t i) {
    if (!c->large) return;
    const gq_plan *plan = c->plan;
    size_t tensor = chunk_tensor(&plan->chunks, i);
    chunk k = chunk_at(&plan->chunks, i, plan->sources[tensor].tensor->ne);
    for (size_t o = 0; o < plan->n_outputs; o++) {
        const plan_place *p = &plan->outputs[o].places[tensor];
        const gguf_type *t = gguf_type_of(plan->outputs[o].tensors[tensor].to);
        uint64_t at = p->offset + gguf_type_bytes(t, k.first);
        posix_fadvise(outputs->files[outputs->first[o] + p->shard].fd, (off_t)at,
                      (off_t)gguf_type_bytes(t, k.n), POSIX_FADV_DONTNEED);
    }
}
