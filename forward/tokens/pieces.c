#include "forward/tokens/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/memory.h"
#include "base/name_index.h"

/* A power of two, at most half of it used. */
static uint64_t slots_for(uint64_t most) {
    uint64_t n = 16;
    while (n < 2 * most) n *= 2;
    return n;
}

bool pieces_new(piece_table *p, uint64_t most, gq_error *e) {
    *p = (piece_table){.seed = name_hash_seed()};
    if (most >= NO_PIECE / 4)
        return gq_fail(e, "a vocabulary of %llu texts is too large", (unsigned long long)most);
    p->capacity = (uint32_t)most + 1, p->n_slots = slots_for(p->capacity);
    p->items = calloc(p->capacity, sizeof *p->items);
    p->slots = calloc(p->n_slots, sizeof *p->slots);
    return (p->items && p->slots) || gq_fail_memory(e, p->n_slots * sizeof *p->slots);
}

void pieces_free(piece_table *p) {
    free(p->items), free(p->slots);
    *p = (piece_table){0};
}

/* The slot of a text, or the free one where it would go. */
static uint32_t *slot_of(const piece_table *p, const char *text, size_t length) {
    uint64_t mask = p->n_slots - 1, at = name_hash(text, length, p->seed) & mask;
    for (; p->slots[at]; at = (at + 1) & mask) {
        const piece *i = &p->items[p->slots[at] - 1];
        if (i->length == length && !memcmp(i->text, text, length)) break;
    }
    return &p->slots[at];
}

uint32_t pieces_find(const piece_table *p, const char *text, size_t length) {
    return *slot_of(p, text, length) - 1;
}

uint32_t pieces_add(piece_table *p, const char *text, size_t length, bool *fresh) {
    uint32_t *slot = slot_of(p, text, length);
    *fresh = *slot == 0;
    if (*fresh) {
        p->items[p->n] = (piece){text, (uint32_t)length};
        *slot = ++p->n;
    }
    return *slot - 1;
}

bool merges_new(merge_table *m, uint64_t most, gq_error *e) {
    *m = (merge_table){.n_slots = slots_for(most), .seed = name_hash_seed()};
    m->slots = malloc(m->n_slots * sizeof *m->slots);
    if (!m->slots) return gq_fail_memory(e, m->n_slots * sizeof *m->slots);
    for (uint64_t i = 0; i < m->n_slots; i++) m->slots[i].left = NO_PIECE;
    return true;
}

void merges_free(merge_table *m) {
    free(m->slots);
    *m = (merge_table){0};
}

static merge *merge_slot(const merge_table *m, uint32_t left, uint32_t right) {
    uint64_t mask = m->n_slots - 1, at = name_hash((uint32_t[2]){left, right}, 8, m->seed) & mask;
    while (m->slots[at].left != NO_PIECE && (m->slots[at].left != left || m->slots[at].right != right))
        at = (at + 1) & mask;
    return &m->slots[at];
}

void merges_add(merge_table *m, const merge *what) {
    merge *slot = merge_slot(m, what->left, what->right);
    if (slot->left == NO_PIECE) *slot = *what;
}

const merge *merges_find(const merge_table *m, uint32_t left, uint32_t right) {
    const merge *slot = merge_slot(m, left, right);
    return slot->left == NO_PIECE ? NULL : slot;
}

/* ---- texts as a tree ---- */

/* The slot of a step, or the free one that it would get. */
static uint64_t tree_slot(const text_tree *t, uint64_t key) {
    uint64_t mask = t->n_edges - 1, at = name_hash(&key, sizeof key, t->seed) & mask;
    while (t->edges[at].child && t->edges[at].key != key) at = (at + 1) & mask;
    return at;
}

uint32_t tree_child(const text_tree *t, uint32_t node, uint8_t byte) {
    return t->n_edges ? t->edges[tree_slot(t, (uint64_t)node << 8 | byte)].child : 0;
}

/* Makes room for another node: half of the slots stay free. */
static bool tree_grow(text_tree *t, gq_error *e) {
    size_t before = t->capacity;
    if (!memory_grow(&t->values, &t->capacity, (uint64_t)t->n_nodes + 2, sizeof *t->values, e)) return false;
    for (size_t i = before; i < t->capacity; i++) t->values[i] = 0;
    if (t->n_nodes == 0) t->n_nodes = 1;
    if (2 * (uint64_t)t->n_nodes < t->n_edges) return true;
    text_tree more = *t;
    more.n_edges = t->n_edges ? 2 * t->n_edges : 16;
    more.edges = calloc(more.n_edges, sizeof *more.edges);
    if (!more.edges) return gq_fail_memory(e, more.n_edges * sizeof *more.edges);
    for (uint64_t i = 0; i < t->n_edges; i++)
        if (t->edges[i].child) more.edges[tree_slot(&more, t->edges[i].key)] = t->edges[i];
    free(t->edges);
    *t = more;
    return true;
}

bool tree_add(text_tree *t, const char *text, size_t n, uint32_t value, gq_error *e) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t child = tree_child(t, node, (uint8_t)text[i]);
        if (!child) {
            if (!tree_grow(t, e)) return false;
            uint64_t key = (uint64_t)node << 8 | (uint8_t)text[i];
            child = t->n_nodes++;
            t->edges[tree_slot(t, key)] = (tree_edge){key, child};
        }
        node = child;
    }
    if (n) t->values[node] = value + 1;
    return true;
}

void tree_free(text_tree *t) {
    free(t->edges), free(t->values);
    *t = (text_tree){.seed = t->seed};
}
