/* Assistants of Gemma 4: all positions of a batch are run at once, each with the token that it has and the target's state
 * of the one before. A draft goes on at the same position, with what was drafted and the state that the assistant left
 * for it. */
#include <stdlib.h>
#include <string.h>

#include "study/evaluate/evaluate.h"

typedef struct assistant_draft {
    draft_step step;
    size_t width, of_target, rows; /* rows: of the state, with the target's keys and values */
    forward_layer *first, *layer;  /* first: which stays, as it has what makes states of the target's */
    forward_batch *batch, *target; /* target: for its last norm */
    float *both;                   /* [2 of_target][stride]: embeddings, and states behind them */
    float *x, *normed, *next;      /* next: [of_target] the states that are left */
    uint32_t *ids;
} assistant_draft;

static bool assistant_begin(continued_run *r, gq_error *e) {
    size_t context = r->t->texts.windows.context, windows = r->batch_windows, tokens = windows * context,
           stride = forward_stride(tokens);
    assistant_draft *d = r->own = calloc(1, sizeof *d);
    memory_ledger l = {.failed = false};
    if (!d) return gq_fail_memory(e, sizeof *d);
    d->width = forward_model_sizes(r->draft)->width, d->of_target = forward_model_sizes(r->target)->width;
    d->rows = forward_model_state(r->draft, context);
    d->both = forward_activations_take(&l, 2 * d->of_target, stride);
    d->x = forward_activations_take(&l, d->rows, stride);
    d->normed = forward_activations_take(&l, d->width, stride);
    d->next = forward_activations_take(&l, d->of_target, stride);
    d->ids = memory_take(&l, tokens, sizeof *d->ids);
    threads_pool *pool = sweep_pool(&r->sweep);
    return memory_had(&l, e) && (d->first = forward_layer_new(r->draft, 0, e)) &&
           forward_layer_read(d->first, 0, e) && (d->layer = forward_layer_new(r->draft, 0, e)) &&
           (d->batch = forward_batch_new(r->draft, context, windows, pool, e)) &&
           (d->target = forward_batch_new(r->target, context, windows, pool, e)) &&
           draft_step_new(&d->step, r, tokens, e);
}

static void assistant_end(continued_run *r) {
    assistant_draft *d = r->own;
    if (!d) return;
    draft_step_free(&d->step);
    forward_batch_free(d->batch), forward_batch_free(d->target);
    forward_layer_free(d->first), forward_layer_free(d->layer);
    free(d->both), free(d->x), free(d->normed), free(d->next), free(d->ids), free(d);
}

/* The target's states behind its last norm, each a position farther. */
static bool assistant_take_states(const continued_run *r, const draft_batch *b, gq_error *e) {
    assistant_draft *d = r->own;
    float *states = d->both + d->of_target * b->stride;
    forward_batch_windows(d->target, b->windows);
    if (!forward_norm_last(d->target, r->target, b->taken, b->stride, states, b->stride, e)) return false;
    for (size_t c = 0; c < d->of_target; c++) {
        float *row = states + c * b->stride;
        memmove(row + 1, row, (b->tokens - 1) * sizeof *row);
        row[0] = 0;
    }
    return true;
}

/* Runs all layers on a batch, and predicts what was picked. */
static bool assistant_run(continued_run *r, const draft_batch *b, gq_error *e) {
    assistant_draft *d = r->own;
    size_t stride = b->stride, kept = (d->rows - d->width) * stride;
    if (!forward_draft_embed(r->draft, d->ids, b->tokens, d->both, stride, e) ||
        !forward_assistant_enter(d->batch, d->first, d->both, stride, d->x, stride, e))
        return false;
    memcpy(d->x + d->width * stride, b->taken + d->of_target * stride, kept * sizeof *d->x);
    for (size_t i = 0; i < forward_model_sizes(r->draft)->layers; i++)
        if ((i > 0 && !forward_layer_read(d->layer, i, e)) ||
            !forward_block(d->batch, i ? d->layer : d->first, FORWARD_WHOLE, d->x, stride, NULL, e))
            return false;
    return forward_final(d->batch, d->x, stride, d->normed, stride, NULL, e) &&
           draft_step_predict(&d->step, r, d->normed, stride, e) &&
           forward_assistant_leave(d->batch, d->first, d->normed, stride, d->next, stride, e);
}

static bool assistant_draft_batch(continued_run *r, draft_batch *b, gq_error *e) {
    assistant_draft *d = r->own;
    const draft_step *s = &d->step;
    size_t words = forward_model_sizes(r->target)->vocabulary;
    memcpy(d->ids, r->t->texts.windows.ids + b->first, b->tokens * sizeof *d->ids);
    draft_choose_batch(r, d->batch, b);
    forward_assistant_cut(d->batch);
    bool ok = assistant_take_states(r, b, e);
    for (size_t k = 0; ok && k < GQ_DRAFTED; k++) {
        draft_step_pick(&d->step, r, b, k, 1 + k); /* always where the first one is predicted */
        ok = assistant_run(r, b, e);
        if (ok) draft_step_keep(s, r, k);
        for (size_t i = 0; ok && i < s->n; i++) {
            if (s->piece[i] == SIZE_MAX) continue;
            d->ids[s->at[i]] = s->token[i] < words ? s->token[i] : 0;
            for (size_t c = 0; c < d->of_target; c++)
                d->both[(d->of_target + c) * b->stride + s->at[i]] = d->next[c * b->stride + s->at[i]];
        }
    }
    return ok;
}

const draft_method draft_method_assistant = {.arch = "gemma4-assistant",
                                             .begin = assistant_begin,
                                             .draft = assistant_draft_batch,
                                             .end = assistant_end};
