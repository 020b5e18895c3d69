#include "quantize/study/evaluate/draft_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fail.h"

enum { LEAST_TOKENS = 8 }; /* of a piece */

/* Adds n tokens of a text, with room for what is drafted. begin: the text's first token, which pieces begin with where
 * windows begin with BOS. Positions from the piece's half on are compared, if their tokens count. */
static bool piece_add(draft_texts *t, const text_windows *w, size_t begin, size_t at, size_t n, gq_error *e) {
    uint32_t ids[PIECE_TOKENS + GQ_DRAFTED];
    while (n > 0 && w->marks && !w->marks[at + n - 1].weight) n--; /* a draft goes on behind what counts */
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
    return t->texts.n ||
           gq_fail_usage(e, "the text has no piece of %d tokens behind which a draft could be tried",
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
