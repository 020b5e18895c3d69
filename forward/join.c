/* A heap of the joins that are possible, and symbols in a doubly linked list. Joins that have become
 * impossible are skipped when they come up: n log n for a word of n symbols, however long. */
#include "forward/join.h"

#include <stdlib.h>

#include "base/memory.h"

#define NONE UINT32_MAX

void join_scratch_free(join_scratch *r) {
    free(r->symbols), free(r->heap);
    *r = (join_scratch){0};
}

bool join_add_symbol(join_scratch *r, uint32_t start, uint32_t length, uint32_t number, gq_error *e) {
    if (!memory_grow(&r->symbols, &r->symbols_capacity, r->n + 1, sizeof *r->symbols, e)) return false;
    uint32_t i = (uint32_t)r->n++;
    r->symbols[i] = (symbol){start, length, number, i ? i - 1 : NONE, NONE};
    if (i) r->symbols[i - 1].next = i;
    return true;
}

/* ---- the heap ---- */

static bool heap_push(join_scratch *r, const join *j, gq_error *e) {
    if (!memory_grow(&r->heap, &r->heap_capacity, r->n_heap + 1, sizeof *r->heap, e)) return false;
    size_t at = r->n_heap++;
    for (size_t up; at > 0 && j->key < r->heap[up = (at - 1) / 2].key; at = up) r->heap[at] = r->heap[up];
    r->heap[at] = *j;
    return true;
}

static join heap_pop(join_scratch *r) {
    join top = r->heap[0], last = r->heap[--r->n_heap];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < r->n_heap; at = down) {
        if (down + 1 < r->n_heap && r->heap[down + 1].key < r->heap[down].key) down++;
        if (last.key <= r->heap[down].key) break;
        r->heap[at] = r->heap[down];
    }
    r->heap[at] = last;
    return top;
}

/* ---- joining ---- */

/* Looks up the token that two neighbours would make. */
static bool find_join(const vocabulary *v, const char *word, const symbol *a, const symbol *b, uint32_t *rank,
                      uint32_t *result) {
    if (v->kind == VOCABULARY_SPM) { /* any two whose text is a token */
        *result = pieces_find(&v->pieces, word + a->start, (size_t)a->length + b->length);
        if (*result == NO_PIECE) return false;
        *rank = v->ranks[*result];
        return true;
    }
    if (a->piece == NO_PIECE || b->piece == NO_PIECE) return false;
    const merge *m = merges_find(&v->merges, a->piece, b->piece);
    if (!m) return false;
    *rank = m->rank, *result = m->result;
    return true;
}

static bool push_join(const vocabulary *v, const char *word, join_scratch *r, uint32_t left, gq_error *e) {
    const symbol *a = &r->symbols[left];
    uint32_t rank;
    join j;
    if (a->next == NONE || !find_join(v, word, a, &r->symbols[a->next], &rank, &j.result)) return true;
    j.key = (uint64_t)rank << 32 | left, j.length = a->length + r->symbols[a->next].length;
    return heap_push(r, &j, e);
}

bool join_all(const vocabulary *v, const char *word, join_scratch *r, gq_error *e) {
    r->n_heap = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (!push_join(v, word, r, i, e)) return false;
    while (r->n_heap > 0) {
        join j = heap_pop(r);
        uint32_t left = (uint32_t)j.key;
        symbol *a = &r->symbols[left];
        /* Symbols only grow, so the same place and length mean the same two symbols. */
        if (a->length == 0 || a->next == NONE || a->length + r->symbols[a->next].length != j.length) continue;
        symbol *b = &r->symbols[a->next];
        a->length = j.length, a->piece = j.result, a->next = b->next;
        b->length = 0;
        if (a->next != NONE) r->symbols[a->next].before = left;
        if (a->before != NONE && !push_join(v, word, r, a->before, e)) return false;
        if (!push_join(v, word, r, left, e)) return false;
    }
    return true;
}
