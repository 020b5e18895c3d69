/* EAGLE-3: what is taken of the target becomes one state per token. The layer then runs GQ_DRAFTED times on all pieces of
 * a batch: each time behind them stands one token more, and its state is the one that the layer left a position
 * earlier. */
#include <stdlib.h>
#include <string.h>

#include "study/evaluate/evaluate.h"

enum { BEHIND = 2 }; /* a position predicts the token behind the next one */

typedef struct eagle_draft {
    draft_step step;
    forward_layer *layer;
    forward_batch *batch;
    float *g, *x, *normed;
} eagle_draft;

static bool eagle_begin(continued_run *r, gq_error *e) {
    size_t context = r->t->texts.windows.context, windows = r->batch_windows, tokens = windows * context,
           width = forward_model_sizes(r->draft)->width;
    eagle_draft *d = r->own = calloc(1, sizeof *d);
    memory_ledger l = {.failed = false};
    if (!d) return gq_fail_memory(e, sizeof *d);
    d->g = forward_activations_take(&l, width, forward_stride(tokens));
    d->x = forward_activations_take(&l, 2 * width, forward_stride(tokens));
    d->normed = forward_activations_take(&l, width, forward_stride(tokens));
    return memory_had(&l, e) && (d->layer = forward_layer_new(r->draft, 0, e)) &&
           forward_layer_read(d->layer, 0, e) &&
           (d->batch = forward_batch_new(r->draft, context, windows, sweep_pool(&r->sweep), e)) &&
           draft_step_new(&d->step, r, tokens, e);
}

static void eagle_end(continued_run *r) {
    eagle_draft *d = r->own;
    if (!d) return;
    draft_step_free(&d->step);
    forward_batch_free(d->batch), forward_layer_free(d->layer);
    free(d->g), free(d->x), free(d->normed), free(d);
}

/* Runs the layer on a batch, and predicts what was picked. */
static bool eagle_run(continued_run *r, const draft_batch *b, gq_error *e) {
    eagle_draft *d = r->own;
    size_t width = forward_model_sizes(r->draft)->width, stride = b->stride;
    memcpy(d->x, d->g, width * stride * sizeof *d->x);
    /* Position p has the embedding of the token of p + 1; behind the batch's last it does not matter. */
    if (!forward_draft_embed(r->draft, r->t->texts.windows.ids + b->first + 1, b->tokens - 1,
                             d->x + width * stride, stride, e))
        return false;
    for (size_t c = 0; c < width; c++) d->x[(width + c) * stride + b->tokens - 1] = 0;
    return forward_block(d->batch, d->layer, FORWARD_WHOLE, d->x, stride, NULL, e) &&
           forward_final(d->batch, d->x, stride, d->normed, stride, NULL, e) &&
           draft_step_predict(&d->step, r, d->normed, stride, e);
}

static bool eagle_draft_batch(continued_run *r, draft_batch *b, gq_error *e) {
    eagle_draft *d = r->own;
    const draft_step *s = &d->step;
    size_t width = forward_model_sizes(r->draft)->width, stride = b->stride;
    draft_choose_batch(r, d->batch, b);
    bool ok = forward_draft_fuse(d->batch, d->layer, b->taken, stride, d->g, stride, e);
    for (size_t k = 0; ok && k < GQ_DRAFTED; k++) {
        draft_step_pick(&d->step, r, b, k, BEHIND);
        ok = eagle_run(r, b, e);
        if (ok) draft_step_keep(s, r, k);
        for (size_t i = 0; ok && i < s->n; i++)
            for (size_t c = 0; s->piece[i] != SIZE_MAX && c < width; c++)
                d->g[c * stride + s->at[i] + 1] = d->x[c * stride + s->at[i]];
    }
    return ok;
}

const draft_method draft_method_eagle = {
    .arch = "eagle3", .begin = eagle_begin, .draft = eagle_draft_batch, .end = eagle_end};
