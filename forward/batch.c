#include "forward/batch.h"
#include "forward/saturate.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, MOST_CONTEXT = 1 << 24, MOST_TOKENS = 1 << 30 };

/* Parts of one room, one after another. Without a room they are only counted; UINT64_MAX: too many. */
typedef struct room {
    uint8_t *bytes;
    uint64_t at;
} room;

static void *part(room *r, uint64_t n, uint64_t of, uint64_t size) {
    uint64_t bytes, at = r->at;
    if (__builtin_mul_overflow(n, of, &bytes) || __builtin_mul_overflow(bytes, size, &bytes) ||
        bytes > UINT64_MAX / 4 || __builtin_add_overflow(at, gguf_round_up(bytes, ALIGNMENT), &r->at)) {
        r->at = UINT64_MAX;
        return NULL;
    }
    return r->bytes ? r->bytes + at : NULL;
}

static uint64_t work_rows(const forward_model *m) {
    uint64_t most = 0;
    for (size_t i = 0; i < m->sizes.layers; i++) {
        const layer_plan *l = &m->layers[i];
        uint64_t attention = m->latent ? latent_rows(m, l) : attention_rows(m, l);
        uint64_t ffn = l->routed ? experts_rows(m, l) : ffn_rows(m, l);
        if (attention > most) most = attention;
        if (ffn > most) most = ffn;
    }
    return most;
}

/* All of a batch's pointers for so many threads, or their sizes alone. */
static void lay_out(forward_batch *b, uint64_t threads, room *r) {
    const forward_model *m = b->model;
    uint64_t tokens = b->context * b->most_windows, stride = forward_stride(tokens), used = m->experts_used;
    b->stride = stride;
    b->normed = part(r, m->sizes.width, stride, sizeof(float));
    b->part = part(r, m->sizes.width, stride, sizeof(float));
    b->work = part(r, work_rows(m), stride, sizeof(float));
    b->turn_stride = forward_stride(b->context);
    for (int local = 0; local < 2; local++) {
        b->cosine[local] = part(r, m->turned / 2, b->turn_stride, sizeof(float));
        b->sine[local] = part(r, m->turned / 2, b->turn_stride, sizeof(float));
    }
    if (m->temperature != 0) b->temperature = part(r, 1, b->turn_stride, sizeof(float));
    /* scores of some queries, and a head's keys where they are put together */
    b->scores_each = b->turn_stride * (QUERIES + (m->latent ? m->head : 0));
    b->scores = part(r, b->scores_each, threads, sizeof(float));
    b->chosen = part(r, tokens, used, sizeof(uint32_t));
    b->chosen_weight = part(r, tokens, used, sizeof(float));
    b->routed_token = part(r, tokens, used, sizeof(uint32_t));
    b->routed_weight = part(r, tokens, used, sizeof(float));
    b->routed_begin = part(r, m->experts + 1, 1, sizeof(uint32_t));
    b->group_score = part(r, m->groups, threads, sizeof(float));
}

static bool countable(size_t context, size_t windows, int threads) {
    return context >= 1 && context <= MOST_CONTEXT && windows >= 1 && windows <= MOST_TOKENS / context &&
           threads >= 1 && threads <= 1 << 16;
}

uint64_t forward_batch_bytes(const forward_model *m, size_t context, size_t windows, int threads) {
    forward_batch b = {.model = m, .context = context, .most_windows = windows};
    room r = {0};
    if (!countable(context, windows, threads)) return UINT64_MAX;
    lay_out(&b, (uint64_t)threads, &r);
    return plus(r.at, matmul_bytes(threads));
}

forward_batch *forward_batch_new(const forward_model *m, size_t context, size_t windows, threads_pool *pool,
                                 gq_error *e) {
    int threads = threads_pool_most(pool);
    if (!countable(context, windows, threads)) {
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
    room r = {0};
    lay_out(b, (uint64_t)threads, &r);
    r.bytes = b->room = room_new(r.at, e);
    if (!b->room) {
        forward_batch_free(b);
        return NULL;
    }
    memset(b->room, 0, r.at);
    r.at = 0;
    lay_out(b, (uint64_t)threads, &r);
    forward_batch_windows(b, windows);
    b->products = matmul_new(m->codecs, pool, e);
    if (b->products && batch_fill_rope(b, e)) return b;
    forward_batch_free(b);
    return NULL;
}

void forward_batch_windows(forward_batch *b, size_t windows) {
    b->windows = windows < b->most_windows ? windows : b->most_windows;
    b->tokens = b->windows * b->context;
}

size_t forward_batch_tokens(const forward_batch *b) { return b->tokens; }

void forward_batch_free(forward_batch *b) {
    if (!b) return;
    matmul_free(b->products);
    free(b->room);
    free(b);
}

float *forward_activations(size_t features, size_t stride, gq_error *e) {
    room r = {0};
    part(&r, features, stride, sizeof(float));
    float *x = room_new(r.at, e);
    return x ? memset(x, 0, r.at) : NULL;
}
