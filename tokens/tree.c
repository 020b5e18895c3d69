#include "tokens/tree.h"

#include <stdlib.h>

#include "base/fail.h"
#include "base/memory.h"
#include "base/name_index.h"

/* The slot of a step, or the free one that it would get. */
static uint64_t tree_slot(const text_tree *t, uint64_t key) {
    uint64_t mask = t->n_edges - 1, at = gguf_hash(&key, sizeof key, t->seed) & mask;
    while (t->edges[at].child && t->edges[at].key != key) at = (at + 1) & mask;
    return at;
}

uint32_t tree_step(const text_tree *t, uint32_t node, uint8_t byte) {
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
        uint32_t child = tree_step(t, node, (uint8_t)text[i]);
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
