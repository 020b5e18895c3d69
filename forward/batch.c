#include "base/checked.h"
#include "forward/layer_part.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { MOST_CONTEXT = 1 << 24, MOST_TOKENS = 1 << 30 };

static uint64_t rows_of(const forward_model *m, const layer_plan *l, const plan_part *p) {
    return p->part ? p->part->kind->scratch_rows(m, l, p) : 0;
}

static uint64_t work_rows(const forward_model *m) {
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        const layer_plan *l = &m->layers[i];
        const plan_part *parts[] = {&l->mixer, &l->beside, &l->ffn, &l->tail};
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            uint64_t rows = rows_of(m, l, parts[k]);
            if (rows > most) most = rows;
        }
    }
    return most;
}

/* All of a batch's pointers, or their sizes alone. */
static void lay_out_batch(forward_batch *b, scratch *s) {
    const forward_model *m = b->model;
    uint64_t stride = forward_stride(b->context * b->most_windows);
    b->stride = stride;
    b->normed = scratch_take(s, m->sizes.width, stride, sizeof(float));
    b->part = scratch_take(s, m->sizes.width, stride, sizeof(float));
    b->work = scratch_take(s, work_rows(m), stride, sizeof(float));
    if (m->arch->beside) b->first = scratch_take(s, m->sizes.width, stride, sizeof(float));
    if (m->layers[0].keeps_start) b->start = scratch_take(s, m->sizes.width, stride, sizeof(float));
    for (size_t i = 0; i < m->n_parts; i++)
        if (m->parts[i].kind->lay_out) m->parts[i].kind->lay_out(b, &m->parts[i], s);
}

static bool batch_prepare_parts(forward_batch *b, gq_error *e) {
    const forward_model *m = b->model;
    for (size_t i = 0; i < m->n_parts; i++) {
        const layer_part *kind = m->parts[i].kind;
        if (kind->prepare && !kind->prepare(b, &m->parts[i], e)) return false;
    }
    return true;
}

static bool batch_is_countable(size_t context, size_t windows, int threads) {
    return context >= 1 && context <= MOST_CONTEXT && windows >= 1 && windows <= MOST_TOKENS / context &&
           threads >= 1 && threads <= 1 << 16;
}

uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads) {
    forward_batch b = {.model = m, .context = context, .most_windows = windows};
    scratch r = {.threads = (uint64_t)threads};
    if (!batch_is_countable(context, windows, threads)) return UINT64_MAX;
    lay_out_batch(&b, &r);
    return plus(r.at, matmul_bytes(threads));
}

forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, threads_pool *pool,
                                 gq_error *e) {
    int threads = threads_pool_most(pool);
    if (!batch_is_countable(context, windows, threads)) {
        gq_fail_usage(
            e,
            "%zu windows of %zu tokens on %d threads, expected at least one of each, and at most %d "
            "tokens in a window",
            windows, context, threads, MOST_CONTEXT);
        return NULL;
    }
    forward_batch *b = calloc(1, sizeof *b);
    if (!b) return gq_fail_memory(e, sizeof *b), NULL;
    *b = (forward_batch){.model = m, .context = context, .most_windows = windows, .pool = pool};
    scratch r = {.threads = (uint64_t)threads};
    lay_out_batch(b, &r);
    r.bytes = b->memory = memory_lines(1, r.at, e);
    if (!b->memory) {
        forward_batch_free(b);
        return NULL;
    }
    memset(b->memory, 0, r.at);
    r.at = 0;
    lay_out_batch(b, &r);
    forward_batch_windows(b, windows);
    b->products = matmul_new(m->codecs, pool, e);
    if (b->products) matmul_set_arithmetic(b->products, m->arithmetic);
    if (b->products && batch_prepare_parts(b, e)) return b;
    forward_batch_free(b);
    return NULL;
}

void forward_batch_windows(forward_batch *b, size_t windows) {
    b->windows = windows < b->most_windows ? windows : b->most_windows;
    b->tokens = b->windows * b->context;
}

void forward_batch_free(forward_batch *b) {
    if (!b) return;
    matmul_free(b->products);
    free(b->memory);
    free(b);
}

float *forward_activations_take(memory_ledger *l, size_t features, size_t stride) {
    return memory_take_zeros(l, times(features, stride), sizeof(float));
}

float *forward_activations(size_t features, size_t stride, gq_error *e) {
    memory_ledger l = {.failed = false};
    float *x = forward_activations_take(&l, features, stride);
    return memory_had(&l, e) ? x : NULL;
}
