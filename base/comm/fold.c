/* The nodes of a fold are a stack. Two neighbours on top are added when all leaves of the smallest subtree
 * that holds both are known to be in them: when it begins within the share and ends before the leaf that
 * comes next. Nodes below the top need no look: they were neighbours on top when the one above them came. */
#include "base/comm/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

/* The smallest subtree that holds leaves a < b begins with its own begin and has 2^levels leaves. */
static unsigned fold_levels(uint64_t a, uint64_t b) { return 64 - (unsigned)__builtin_clzll(a ^ b); }

/* The bits of a leaf's number within a subtree of so many levels. */
static uint64_t levels_mask(unsigned levels) {
    return levels < 64 ? (UINT64_C(1) << levels) - 1 : UINT64_MAX;
}

/* Whether the smallest subtree of two nodes is whole. */
static bool fold_is_whole(uint64_t begin, uint64_t a, uint64_t b, uint64_t next) {
    uint64_t within = levels_mask(fold_levels(a, b));
    return (a & ~within) >= begin && (a | within) < next;
}

static void fold_add_top(fold *f) {
    fold_node *left = &f->nodes[f->n - 2], right = f->nodes[f->n - 1];
    for (size_t i = 0; i < f->length; i++) left->sums[i] += right.sums[i];
    f->n--;
}

void fold_end(fold *f, uint64_t end) {
    while (f->n > 1 && fold_is_whole(f->begin, f->nodes[f->n - 2].first, f->nodes[f->n - 1].first, end))
        fold_add_top(f);
}

static double *fold_push(fold *f, uint64_t first, gq_error *e) {
    fold_end(f, first);
    if (f->n == f->capacity) {
        fold_node *grown = realloc(f->nodes, (f->n + 1) * sizeof *grown);
        if (!grown) return gq_fail_memory(e, (f->n + 1) * sizeof *grown), NULL;
        f->nodes = grown;
        grown[f->n].sums = malloc(f->length * sizeof(double));
        if (!grown[f->n].sums) return gq_fail_memory(e, f->length * sizeof(double)), NULL;
        f->capacity++;
    }
    fold_node *node = &f->nodes[f->n++];
    node->first = first;
    return node->sums;
}

double *fold_begin_leaf(fold *f, uint64_t number, gq_error *e) {
    double *sums = fold_push(f, number, e);
    if (sums) memset(sums, 0, f->length * sizeof *sums);
    return sums;
}

bool fold_append(fold *f, uint64_t first, const double *sums, gq_error *e) {
    double *to = fold_push(f, first, e);
    if (to) memcpy(to, sums, f->length * sizeof *to);
    return to;
}

const double *fold_total(fold *f) {
    while (f->n > 1) fold_add_top(f);
    return f->n ? f->nodes[0].sums : NULL;
}

void fold_free(fold *f) {
    for (size_t i = 0; i < f->capacity; i++) free(f->nodes[i].sums);
    free(f->nodes);
    *f = (fold){.n = 0};
}

/* ---- sizes ---- */

size_t fold_most_nodes(uint64_t begin, uint64_t end) {
    size_t levels = end > begin + 1 ? fold_levels(begin, end - 1) : 0;
    return begin ? 2 * levels + 1 : levels + 1;
}

uint64_t fold_bytes(size_t length, size_t nodes) {
    return mul_sat(nodes, add_sat(mul_sat(length, sizeof(double)), sizeof(fold_node)));
}
