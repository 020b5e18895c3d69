/* The kinds of draft models that read what a target computes: each has a draft_method of its own. */
#include <stdlib.h>
#include <string.h>

#include "study/evaluate/evaluate.h"

/* ---- EAGLE-3 ----
 * What is taken of the target becomes one state per token. The layer then runs GQ_DRAFTED times on all pieces of
 * a batch: each time behind them stands one token more, and its state is the one that the layer left a position
 * earlier. */

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

/* ---- assistants of Gemma 4 ----
 * All positions of a batch are run at once, each with the token that it has and the target's state of the one before. A
 * draft continues at the same position, with what was drafted and the state that the assistant left for it. */

typedef struct assistant_draft {
    draft_step step;
    size_t width, of_target, rows; /* rows: of the state, with the target's keys and values */
    forward_layer *first, *layer; /* first: which stays, as it has what makes hidden states of the target's */
    forward_batch *batch, *target; /* target: for its last norm */
    float *both;                   /* [2 of_target][stride]: embeddings, and states behind them */
    float *x, *normed, *next;      /* next: [of_target] the hidden states that are left */
    uint32_t *ids;
} assistant_draft;

static bool assistant_begin(continued_run *r, gq_error *e) {
    size_t context = r->t->texts.windows.context, windows = r->batch_windows, tokens = windows * context,
           stride = forward_stride(tokens);
    assistant_draft *d = r->own = calloc(1, sizeof *d);
    memory_ledger l = {.failed = false};
    if (!d) return gq_fail_memory(e, sizeof *d);
    d->width = forward_model_sizes(r->draft)->width, d->of_target = forward_model_sizes(r->target)->width;
    d->rows = forward_model_features(r->draft, context);
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

/* The target's hidden states behind its last norm, each a position farther. */
static bool assistant_take_hidden_states(const continued_run *r, const draft_batch *b, gq_error *e) {
    assistant_draft *d = r->own;
    float *hidden_states = d->both + d->of_target * b->stride;
    forward_batch_windows(d->target, b->windows);
    if (!forward_norm_last(d->target, r->target, b->taken, b->stride, hidden_states, b->stride, e))
        return false;
    for (size_t c = 0; c < d->of_target; c++) {
        float *row = hidden_states + c * b->stride;
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
    bool ok = assistant_take_hidden_states(r, b, e);
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

/* ---- DFlash and DSpark ----
 * Of each piece the hidden states of the target stand in a window of their own, and behind them a block for each token
 * that is compared, and for the draft behind the piece. The pieces of a batch go through a layer one after the other. */

/* A piece of the batch that is run. */
typedef struct dflash_piece {
    size_t piece;         /* its number */
    size_t begin;         /* its text's first token among all */
    dflash_blocks blocks; /* with `positions` of d->positions */
    float *x;             /* [2 width][d->stride] */
} dflash_piece;

typedef struct dflash_draft {
    dflash_shape shape;
    size_t width, context, stride; /* context: columns of the largest piece */
    forward_layer *layer, *first;  /* first: has what makes one state of the target's */
    forward_batch *fuse, *batch;
    forward_tile *tile;
    dflash_piece *pieces;
    size_t n;
    float *g, *normed, *picked;
    uint32_t *ids, *positions, *anchors, *tokens;
} dflash_draft;

static size_t dflash_position(const continued_run *r, size_t token) {
    return r->t->texts.windows.marks[token].position;
}

/* Tokens of a piece that are predicted behind text. */
static size_t piece_blocks(draft_piece p) { return p.root - p.from + 1; }

/* Columns of a piece: the first anchor of the draft behind it stands at its last token. */
static size_t piece_columns(const continued_run *r, const dflash_draft *d, draft_piece p) {
    return dflash_position(r, p.root) - 1 + piece_blocks(p) * d->shape.tokens;
}

static bool dflash_begin(continued_run *r, gq_error *e) {
    const asked_texts *t = &r->t->texts;
    size_t context = t->windows.context, windows = r->batch_windows, most = 1;
    dflash_draft *d = r->own = calloc(1, sizeof *d);
    memory_ledger l = {.failed = false};
    if (!d) return gq_fail_memory(e, sizeof *d);
    d->shape = forward_dflash_shape(r->draft, GQ_DRAFTED), d->width = forward_model_sizes(r->draft)->width;
    for (size_t i = 0; i < t->n; i++) {
        d->context = max(d->context, piece_columns(r, d, r->t->pieces[i]));
        most = max(most, piece_blocks(r->t->pieces[i]));
    }
    d->stride = forward_stride(d->context);
    size_t picked = d->shape.drafted * forward_stride(most);
    d->pieces = memory_take_zeros(&l, t->n, sizeof *d->pieces);
    d->g = forward_activations_take(&l, d->width, forward_stride(windows * context));
    d->normed = forward_activations_take(&l, d->width, d->stride);
    d->picked = forward_activations_take(&l, d->width, picked);
    d->ids = memory_take(&l, d->context, sizeof *d->ids);
    d->positions = memory_take(&l, most, sizeof *d->positions);
    d->anchors = memory_take(&l, most, sizeof *d->anchors);
    d->tokens = memory_take(&l, most * d->shape.drafted, sizeof *d->tokens);
    threads_pool *pool = sweep_pool(&r->sweep);
    return memory_had(&l, e) && (d->first = forward_layer_new(r->draft, 0, e)) &&
           forward_layer_read(d->first, 0, e) && (d->layer = forward_layer_new(r->draft, 0, e)) &&
           (d->fuse = forward_batch_new(r->draft, context, windows, pool, e)) &&
           (d->batch = forward_batch_new(r->draft, d->context, 1, pool, e)) &&
           (d->tile = forward_tile_new(r->draft, HEAD_ROWS, e));
}

static void dflash_free_pieces(dflash_draft *d) {
    for (size_t i = 0; i < d->n; i++) free(d->pieces[i].x), d->pieces[i].x = NULL;
    d->n = 0;
}

static void dflash_end(continued_run *r) {
    dflash_draft *d = r->own;
    if (!d) return;
    dflash_free_pieces(d);
    forward_tile_free(d->tile), forward_batch_free(d->fuse), forward_batch_free(d->batch);
    forward_layer_free(d->first), forward_layer_free(d->layer);
    free(d->pieces), free(d->g), free(d->normed), free(d->picked);
    free(d->ids), free(d->positions), free(d->anchors), free(d->tokens), free(d);
}

/* Places a piece's blocks: that for the token t begins at the position before. */
static void dflash_place(const continued_run *r, dflash_draft *d, dflash_piece *p) {
    draft_piece of = r->t->pieces[p->piece];
    size_t first = dflash_position(r, of.from) - 1;
    p->blocks = (dflash_blocks){.hidden_states = dflash_position(r, of.root) - 1,
                                .tokens = d->shape.tokens,
                                .n = piece_blocks(of),
                                .positions = d->positions};
    for (size_t j = 0; j < p->blocks.n; j++) {
        d->positions[j] = (uint32_t)(first + j);
        d->anchors[j] = r->t->texts.windows.ids[of.from + j - 1];
    }
    forward_dflash_place(d->batch, &p->blocks);
}

/* The state before the first layer. */
static bool dflash_enter(const continued_run *r, dflash_draft *d, const draft_batch *b, dflash_piece *p,
                         gq_error *e) {
    dflash_place(r, d, p);
    size_t hidden_states = p->blocks.hidden_states, step = p->blocks.tokens,
           columns = d->context - hidden_states;
    p->x = forward_activations(2 * d->width, d->stride, e);
    if (!p->x) return false;
    for (size_t c = 0; c < columns; c++)
        d->ids[c] = c % step == 0 && c / step < p->blocks.n ? d->anchors[c / step] : d->shape.mask;
    forward_dflash_enter(d->batch, &p->blocks, d->g + p->begin - b->first, b->stride, p->x, d->stride);
    return forward_draft_embed(r->draft, d->ids, columns, p->x + hidden_states, d->stride, e);
}

static bool dflash_enter_all(const continued_run *r, dflash_draft *d, const draft_batch *b, gq_error *e) {
    draft_choose_batch(r, d->fuse, b);
    if (!forward_draft_fuse(d->fuse, d->first, b->taken, b->stride, d->g, b->stride, e)) return false;
    for (size_t i = 0; i < r->t->texts.n; i++) {
        size_t root = r->t->pieces[i].root;
        if (root < b->first || root >= b->first + b->tokens) continue;
        dflash_piece *p = &d->pieces[d->n++];
        *p = (dflash_piece){.piece = i, .begin = root - dflash_position(r, root)};
        if (!dflash_enter(r, d, b, p, e)) return false;
    }
    return true;
}

static bool dflash_run_layers(const continued_run *r, dflash_draft *d, gq_error *e) {
    for (size_t l = 0; l < forward_model_sizes(r->draft)->layers; l++) {
        if (l > 0 && !forward_layer_read(d->layer, l, e)) return false;
        for (size_t i = 0; i < d->n; i++) {
            dflash_place(r, d, &d->pieces[i]);
            if (!forward_block(d->batch, l ? d->layer : d->first, FORWARD_WHOLE, d->pieces[i].x, d->stride,
                               NULL, e))
                return false;
        }
    }
    return true;
}

/* Lets a piece's blocks propose. */
static bool dflash_choose(const continued_run *r, dflash_draft *d, dflash_piece *p, gq_error *e) {
    draft_piece of = r->t->pieces[p->piece];
    size_t step = forward_stride(p->blocks.n), drafted = d->shape.drafted;
    dflash_place(r, d, p); /* for the anchors */
    dflash_ends ends = {.normed = d->picked,
                        .stride = drafted * step,
                        .step = step,
                        .blocks = p->blocks.n,
                        .drafted = drafted,
                        .anchors = d->anchors,
                        .ids = r->ids};
    if (!forward_final(d->batch, p->x, d->stride, d->normed, d->stride, NULL, e)) return false;
    for (size_t c = 0; c < d->width; c++)
        for (size_t i = 0; i < drafted; i++)
            for (size_t j = 0; j < p->blocks.n; j++)
                d->picked[c * ends.stride + i * step + j] =
                    d->normed[c * d->stride + p->blocks.hidden_states + j * p->blocks.tokens +
                              d->shape.first + i];
    if (!forward_dflash_choose(d->batch, d->tile, &ends, d->tokens, e)) return false;
    for (size_t j = 0; j < p->blocks.n; j++)
        r->t->choices[asked_position(&r->t->texts, of.from + j)] = d->tokens[j * drafted];
    for (size_t k = 0; k < drafted; k++)
        draft_texts_propose(r->t, p->piece, k, d->tokens[(p->blocks.n - 1) * drafted + k],
                            forward_model_sizes(r->target)->vocabulary);
    return true;
}

static bool dflash_draft_batch(continued_run *r, draft_batch *b, gq_error *e) {
    dflash_draft *d = r->own;
    bool ok = dflash_enter_all(r, d, b, e) && dflash_run_layers(r, d, e);
    for (size_t i = 0; ok && i < d->n; i++) ok = dflash_choose(r, d, &d->pieces[i], e);
    dflash_free_pieces(d);
    return ok;
}

const draft_method draft_method_dflash = {
    .arch = "dflash", .begin = dflash_begin, .draft = dflash_draft_batch, .end = dflash_end};
