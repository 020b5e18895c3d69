#include "study/evaluate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the text ---- */

enum { LEAST_TOKENS = 8 }; /* of a piece */

/* Adds n tokens of a text, with room for what is drafted. begin: the text's first token, which pieces begin with where
 * windows begin with BOS. Positions from the piece's half on are compared, if their tokens count. */
static bool piece_add(draft_texts *t, const text_windows *w, size_t begin, size_t at, size_t n, gq_error *e) {
    uint32_t ids[PIECE_TOKENS + GQ_DRAFTED];
    while (n > 0 && w->marks && !w->marks[at + n - 1].weight) n--; /* a draft continues behind what counts */
    size_t from = n;
    while (from > n / 2 && (!w->marks || w->marks[at + from - 1].weight)) from--;
    if (n < LEAST_TOKENS || from == n) return true;
    memcpy(ids, w->ids + at, n * sizeof *ids);
    if (w->replaced) ids[0] = w->ids[begin];
    for (size_t k = 0; k < GQ_DRAFTED; k++) ids[n + k] = ids[n - 1];
    if (!asked_add(&t->texts, ids, n + GQ_DRAFTED, from, e)) return false;
    draft_piece *more = realloc(t->pieces, t->texts.n * sizeof *more);
    if (!more) return gq_fail_memory(e, t->texts.n * sizeof *more);
    size_t first = t->texts.begins[t->texts.n - 1];
    t->pieces = more, more[t->texts.n - 1] = (draft_piece){first, first + n - from};
    return true;
}

/* Cuts each text of the windows into pieces. */
static bool pieces_add(draft_texts *t, const text_windows *w, gq_error *e) {
    for (size_t begin = 0, end, all = w->n * w->context; begin < all; begin = end) {
        size_t least = min(w->context, (size_t)PIECE_TOKENS);
        for (end = begin + 1; end % w->context && !(w->marks && w->marks[end].position == 0);) end++;
        for (size_t at = begin; at < end && (at == begin || end - at >= least); at += PIECE_TOKENS)
            if (!piece_add(t, w, begin, at, min(end - at, (size_t)PIECE_TOKENS), e)) return false;
    }
    return t->texts.n || gq_fail_usage(e,
                                       "the text has no run of %d tokens, the least after which a draft "
                                       "model is tried; use a longer text",
                                       LEAST_TOKENS);
}

bool draft_texts_begin(draft_texts *t, const side_by_side *s, gq_error *e) {
    *t = (draft_texts){.positions = 0};
    asked_begin(&t->texts, s, PIECE_TOKENS + GQ_DRAFTED);
    if (!pieces_add(t, s->windows, e)) return false;
    t->positions = t->texts.windows.n * (t->texts.windows.context - 1);
    t->choices = malloc(t->positions * sizeof *t->choices);
    t->proposed = malloc(t->texts.n * GQ_DRAFTED * sizeof *t->proposed);
    return (t->choices && t->proposed) || gq_fail_memory(e, t->positions * sizeof *t->choices);
}

void draft_texts_free(draft_texts *t) {
    asked_free(&t->texts);
    free(t->pieces), free(t->choices), free(t->proposed);
}

/* A token that the target lacks is never accepted, and what follows does not matter. */
void draft_texts_propose(draft_texts *t, size_t piece, size_t k, uint32_t token, size_t vocabulary) {
    t->proposed[piece * GQ_DRAFTED + k] = token;
    t->texts.windows.ids[t->pieces[piece].root + k] = token < vocabulary ? token : 0;
}

/* ---- steps ---- */

void draft_choose_batch(const continued_run *r, forward_batch *batch, const draft_batch *b) {
    forward_batch_windows(batch, b->windows);
    forward_batch_cut(batch, r->t->texts.windows.marks + b->first);
}

/* The target's token that a token of the draft is; DRAFT_NONE: it is none. */
static uint32_t draft_token(const continued_run *r, uint32_t token) {
    if (!r->ids) return token;
    int64_t id = r->ids[token];
    return id >= 0 && id < DRAFT_NONE ? (uint32_t)id : DRAFT_NONE;
}

bool draft_step_new(draft_step *s, const continued_run *r, size_t tokens, gq_error *e) {
    size_t stride = forward_stride(tokens);
    memory_ledger l = {.failed = false};
    s->picked = forward_activations_take(&l, forward_model_sizes(r->draft)->width, stride);
    s->logits = forward_activations_take(&l, HEAD_ROWS, stride);
    s->best = forward_activations_take(&l, 1, stride), s->at = memory_take(&l, stride, sizeof *s->at);
    s->predicts = memory_take(&l, stride, sizeof *s->predicts);
    s->piece = memory_take(&l, stride, sizeof *s->piece),
    s->token = memory_take(&l, stride, sizeof *s->token);
    return memory_had(&l, e) && (s->head = forward_batch_new(r->draft, 1, 1, sweep_pool(&r->sweep), e)) &&
           (s->tile = forward_tile_new(r->draft, HEAD_ROWS, e));
}

void draft_step_free(draft_step *s) {
    forward_tile_free(s->tile), forward_batch_free(s->head);
    free(s->at), free(s->predicts), free(s->piece), free(s->token);
    free(s->picked), free(s->logits), free(s->best);
}

void draft_step_pick(draft_step *s, const continued_run *r, const draft_batch *b, size_t k, size_t behind) {
    s->n = 0;
    for (size_t i = 0; i < r->t->texts.n; i++) {
        draft_piece p = r->t->pieces[i];
        if (p.root < b->first || p.root >= b->first + b->tokens) continue;
        for (size_t token = k ? p.root + k : p.from; token <= p.root + k; token++)
            s->at[s->n] = token - behind - b->first, s->predicts[s->n] = token,
            s->piece[s->n++] = token == p.root + k ? i : SIZE_MAX;
    }
}

bool draft_step_predict(draft_step *s, const continued_run *r, const float *normed, size_t normed_stride,
                        gq_error *e) {
    const forward_sizes *of = forward_model_sizes(r->draft);
    size_t stride = forward_stride(s->n), words = of->vocabulary;
    for (size_t c = 0; c < of->width; c++)
        for (size_t i = 0; i < s->n; i++) s->picked[c * stride + i] = normed[c * normed_stride + s->at[i]];
    for (size_t i = 0; i < s->n; i++) s->best[i] = -INFINITY, s->token[i] = 0;
    for (size_t first = 0; s->n && first < words; first += HEAD_ROWS) {
        size_t rows = min((size_t)HEAD_ROWS, words - first);
        if (!forward_tile_read(s->tile, first, rows, e) ||
            !forward_logits(s->head, s->tile, s->picked, stride, s->n, s->logits, stride, e))
            return false;
        for (size_t row = 0; row < rows; row++)
            for (size_t i = 0; i < s->n; i++)
                if (s->logits[row * stride + i] > s->best[i])
                    s->best[i] = s->logits[row * stride + i], s->token[i] = (uint32_t)(first + row);
    }
    for (size_t i = 0; i < s->n; i++) s->token[i] = draft_token(r, s->token[i]);
    return true;
}

void draft_step_keep(const draft_step *s, const continued_run *r, size_t k) {
    for (size_t i = 0; i < s->n; i++) {
        if (k == 0) r->t->choices[asked_position(&r->t->texts, s->predicts[i])] = s->token[i];
        if (s->piece[i] != SIZE_MAX)
            draft_texts_propose(r->t, s->piece[i], k, s->token[i],
                                forward_model_sizes(r->target)->vocabulary);
    }
}
