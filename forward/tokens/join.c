/* A heap of the joins that are possible, and symbols in a doubly linked list. Joins that have become
 * impossible are skipped when they come up: n log n for a word of n symbols, however long.
 *
 * Of a word whose end is not known the beginning is joined in the same order, as long as that is certain. The
 * last symbol may join with what comes behind it, but not before all joins of a lower rank are done, as of
 * several joins the lowest comes first, and of equal ones the leftmost. So when the next join has a higher
 * rank than the last symbol's lowest one with anything, that symbol is given up, and the one before it is the
 * last. At the end the last symbol is one that joins with nothing behind it: the word is cut there. */
#include "forward/tokens/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define NONE UINT32_MAX

void join_scratch_free(join_scratch *r) {
    free(r->symbols), free(r->heap), free(r->lowest);
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

static bool join_push_all(const vocabulary *v, const char *word, join_scratch *r, gq_error *e) {
    r->n_heap = 0;
    for (uint32_t i = 0; i < r->n; i++)
        if (!push_join(v, word, r, i, e)) return false;
    return true;
}

/* Whether a join of the heap is still possible among the symbols up to `last`. Symbols only grow, so the same
 * place and length mean the same two symbols. */
static bool join_stands(const join_scratch *r, const join *j, uint32_t last) {
    const symbol *a = &r->symbols[(uint32_t)j->key];
    return a->length && a->next != NONE && a->next <= last &&
           a->length + r->symbols[a->next].length == j->length;
}

static bool join_carry_out(const vocabulary *v, const char *word, join_scratch *r, const join *j,
                           gq_error *e) {
    uint32_t left = (uint32_t)j->key;
    symbol *a = &r->symbols[left], *b = &r->symbols[a->next];
    a->length = j->length, a->piece = j->result, a->next = b->next;
    b->length = 0;
    if (a->next != NONE) r->symbols[a->next].before = left;
    return (a->before == NONE || push_join(v, word, r, a->before, e)) && push_join(v, word, r, left, e);
}

bool join_all(const vocabulary *v, const char *word, join_scratch *r, gq_error *e) {
    if (!join_push_all(v, word, r, e)) return false;
    while (r->n_heap > 0) {
        join j = heap_pop(r);
        if (join_stands(r, &j, NONE) && !join_carry_out(v, word, r, &j, e)) return false;
    }
    return true;
}

/* ---- beginnings ---- */

enum { ANY_UNKNOWN = 1, ANY_SYMBOL = 2 }; /* of join_scratch.any: symbols that are no piece, or all */
enum { LONG = 512 }; /* bytes; looking up all beginnings of longer texts would take long */

static void lower_rank(uint32_t *to, uint32_t rank) {
    if (rank == NONE) rank--; /* which stands for never */
    if (rank < *to) *to = rank;
}

/* A vocabulary by score: two symbols join where their text is a token, so each beginning of a token counts. */
static void find_lowest_by_score(const vocabulary *v, join_scratch *r) {
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const piece *p = &v->pieces.items[i];
        uint8_t *any = &r->any[(uint8_t)p->text[0]];
        size_t first = symbol_length(v->kind, p->text, p->length);
        if (p->length > LONG) *any |= ANY_SYMBOL;
        for (size_t n = 1; n < p->length && p->length <= LONG; n++) {
            uint32_t begins = pieces_find(&v->pieces, p->text, n);
            if (begins != NO_PIECE) lower_rank(&r->lowest[begins], v->ranks[i]);
            if (begins == NO_PIECE && n == first) *any |= ANY_UNKNOWN;
        }
    }
}

static bool find_lowest(const vocabulary *v, join_scratch *r, gq_error *e) {
    if (r->lowest) return true;
    r->lowest = malloc(v->pieces.n * sizeof *r->lowest);
    if (!r->lowest) return gq_fail_memory(e, v->pieces.n * sizeof *r->lowest);
    memset(r->lowest, 0xff, v->pieces.n * sizeof *r->lowest);
    if (v->kind == VOCABULARY_SPM) find_lowest_by_score(v, r);
    for (uint64_t i = 0; i < v->merges.n_slots; i++) {
        const merge *m = &v->merges.slots[i];
        if (m->left != NO_PIECE) lower_rank(&r->lowest[m->left], m->rank);
    }
    for (uint32_t i = 0; i < v->pieces.n; i++)
        if (v->pieces.items[i].length > r->longest) r->longest = v->pieces.items[i].length;
    if (r->longest > LONG) r->longest = 0;
    return true;
}

/* The lowest rank at which a symbol joins with a symbol that the text behind it begins with. */
static uint32_t lowest_with_text(const vocabulary *v, const char *word, const symbol *s, size_t longest) {
    const char *behind = word + s->start + s->length;
    char mapped[2 * LONG];
    uint32_t lowest = NONE;
    for (size_t n = 1, length = 0; n <= longest; n++) {
        if (v->kind == VOCABULARY_SPM) {
            uint32_t id = pieces_find(&v->pieces, word + s->start, s->length + n);
            if (id != NO_PIECE) lower_rank(&lowest, v->ranks[id]);
            continue;
        }
        if (v->kind == VOCABULARY_BPE) length += symbol_of_byte((uint8_t)behind[n - 1], mapped + length);
        uint32_t right = v->kind == VOCABULARY_BPE ? pieces_find(&v->pieces, mapped, length)
                                                   : pieces_find(&v->pieces, behind, n);
        const merge *m =
            right == NO_PIECE || s->piece == NO_PIECE ? NULL : merges_find(&v->merges, s->piece, right);
        if (m) lower_rank(&lowest, m->rank);
    }
    return lowest;
}

/* The lowest rank at which a symbol may join with what comes behind it, in a word of which n bytes are known. */
static uint32_t lowest_of(const vocabulary *v, const join_scratch *r, const char *word, size_t n,
                          const symbol *s) {
    uint8_t any = r->any[(uint8_t)word[s->start]];
    if (any & ANY_SYMBOL || (any & ANY_UNKNOWN && s->piece == NO_PIECE)) return 0;
    uint32_t lowest = s->piece == NO_PIECE ? NONE : r->lowest[s->piece];
    bool known = r->longest && n - s->start - s->length >= r->longest;
    return lowest != NONE && known ? lowest_with_text(v, word, s, r->longest) : lowest;
}

bool join_beginning(const vocabulary *v, const char *word, size_t n, join_scratch *r, size_t *end,
                    gq_error *e) {
    uint32_t last = r->n ? (uint32_t)r->n - 1 : NONE, lowest = 0;
    if (!find_lowest(v, r, e) || !join_push_all(v, word, r, e)) return false;
    if (last != NONE) lowest = lowest_of(v, r, word, n, &r->symbols[last]);
    while (last != NONE) {
        while (r->n_heap > 0 && !join_stands(r, r->heap, last)) heap_pop(r);
        uint32_t before = last, rank = r->n_heap ? (uint32_t)(r->heap->key >> 32) : NONE;
        if (lowest < rank) {
            last = r->symbols[last].before;
        } else if (r->n_heap == 0) {
            break;
        } else {
            join j = heap_pop(r);
            bool is_last = r->symbols[(uint32_t)j.key].next == last;
            if (!join_carry_out(v, word, r, &j, e)) return false;
            if (is_last) last = (uint32_t)j.key;
        }
        if (last != before && last != NONE) lowest = lowest_of(v, r, word, n, &r->symbols[last]);
    }
    *end = last == NONE ? 0 : r->symbols[last].start + (size_t)r->symbols[last].length;
    return true;
}
