#include "tests/support/forwarding.h"
#include "forward/graph/block.h"
#include "forward/graph/layer.h"

#include <stdlib.h>

/* The objects that a run needs, and the hidden states of its tokens. */
typedef struct running {
    forward_model *m;
    forward_layer *l;
    forward_tile *t;
    threads_pool *pool;
    forward_batch *b;
    size_t stride, in_batch; /* tokens */
    float *x, *z;
} running;

static bool start(running *r, const model_source *g, const forwarding *f, gq_error *e) {
    size_t windows = f->windows ? f->windows : f->n / f->context;
    if (!(r->m = forward_model_new(g, e))) return false;
    const forward_sizes *s = forward_model_sizes(r->m);
    size_t tile = f->tile ? f->tile : s->vocabulary;
    r->in_batch = windows * f->context, r->stride = forward_stride(f->n + 16 * (f->n / r->in_batch + 1));
    return (r->l = forward_layer_new(r->m, f->layer, e)) && (r->t = forward_tile_new(r->m, tile, e)) &&
           ((r->pool = threads_pool_new(f->threads)) || gq_fail_memory(e, sizeof *r)) &&
           (r->b = forward_batch_new(r->m, f->context, windows, r->pool, e)) &&
           (r->x = forward_activations(forward_model_features(r->m, f->context), r->stride, e)) &&
           (r->z = forward_activations(tile, forward_stride(r->in_batch), e));
}

/* Where the batch whose first token is `first` begins: at a multiple of 16, whatever a window's length is. */
static float *batch_at(running *r, const forwarding *f, size_t first) {
    size_t left = f->n - first, tokens = left < r->in_batch ? left : r->in_batch;
    forward_batch_windows(r->b, tokens / f->context);
    if (f->marks) forward_batch_cut(r->b, f->marks + first);
    return r->x + first / r->in_batch * forward_stride(r->in_batch);
}

static bool layers(running *r, const forwarding *f, gq_error *e) {
    for (size_t first = 0; first < f->n; first += r->in_batch)
        if (!forward_embed(r->b, NULL, f->ids + first, batch_at(r, f, first), r->stride, e)) return false;
    bool parts = f->parts && forward_model_splits(r->m);
    for (size_t i = 0; i < forward_model_sizes(r->m)->layers; i++) {
        forward_layer_ahead(r->l, i + 1);
        if (!forward_layer_read(r->l, i, e)) return false;
        for (size_t first = 0; first < f->n; first += r->in_batch)
            for (int part = parts ? 1 : FORWARD_WHOLE; part <= (parts ? 2 : FORWARD_WHOLE); part++)
                if (!forward_block(r->b, r->l, (forward_sublayers)part, batch_at(r, f, first), r->stride,
                                   f->observer, e))
                    return false;
    }
    return true;
}

static bool head(running *r, const forwarding *f, float *logits, gq_error *e) {
    const forward_sizes *s = forward_model_sizes(r->m);
    size_t tile = f->tile ? f->tile : s->vocabulary, stride = forward_stride(r->in_batch);
    for (size_t first = 0; first < f->n; first += r->in_batch) {
        float *x = batch_at(r, f, first);
        size_t tokens = f->n - first < r->in_batch ? f->n - first : r->in_batch;
        if (!forward_final(r->b, x, r->stride, x, r->stride, f->observer, e)) return false;
        if (f->pooled && s->embeds &&
            !forward_pool(r->b, x, r->stride, f->pooled + first / f->context * s->embedded, e))
            return false;
        for (size_t row = 0; row < s->vocabulary; row += tile) {
            size_t rows = s->vocabulary - row < tile ? s->vocabulary - row : tile;
            if (!forward_tile_read(r->t, row, rows, e) ||
                !forward_logits(r->b, r->t, x, r->stride, tokens, r->z, stride, e))
                return false;
            for (size_t i = 0; i < tokens; i++)
                for (size_t v = 0; v < rows; v++)
                    logits[(first + i) * s->vocabulary + row + v] = r->z[v * stride + i];
        }
    }
    return true;
}

float *forward_whole(const model_source *g, const forwarding *f, size_t *vocabulary, gq_error *e) {
    running r = {0};
    float *logits = NULL;
    bool ok = start(&r, g, f, e);
    if (ok) *vocabulary = forward_model_sizes(r.m)->vocabulary;
    ok = ok && ((logits = calloc(f->n * *vocabulary, sizeof *logits)) || gq_fail_memory(e, f->n)) &&
         layers(&r, f, e) && head(&r, f, logits, e);
    free(r.x), free(r.z);
    forward_batch_free(r.b), threads_pool_free(r.pool), forward_tile_free(r.t), forward_layer_free(r.l),
        forward_model_free(r.m);
    if (ok) return logits;
    free(logits);
    return NULL;
}
