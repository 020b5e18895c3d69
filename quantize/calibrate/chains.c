/* Plans chains of rows. A chain's lanes are rows of as many heads as a panel of the level's vectors holds, or
 * of fewer where some thread would have none otherwise. */
#include "quantize/calibrate/chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "imatrix/coupling.h"

/* Lanes are filled up with further rows of the same heads, but with no more than one of so many: they do not
 * know of each other. On a model with 2 heads of 32 keys, 4 rows at once left 2 % more divergence than 1. */
enum { LEAST_LANES = 8, LEAST_APART = 32 };

layer_metrics chains_metrics_of(const layer_metrics *m, const model_tensor *t) {
    layer_metrics own = {.n = 0};
    for (size_t i = 0; i < m->n; i++)
        if (m->of[i].group.weight == t && m->of[i].metric) own.of[own.n++] = m->of[i];
    return own;
}

/* The rows of a head that are rounded at once: a power of two that divides them. The level has no part in it.
 */
static size_t rows_together(const forward_row_group *g) {
    size_t together = 1;
    while (together * g->heads < LEAST_LANES && 2 * together * LEAST_APART <= g->rows &&
           g->rows % (2 * together) == 0)
        together *= 2;
    return together;
}

void chains_lay_out(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, memory_ledger *l) {
    uint64_t factors = 0, coupled = 0, most = 0;
    for (size_t i = 0; i < m->n; i++) {
        const forward_row_group *g = &m->of[i].group;
        most = larger(most, times(g->rows, g->rows));
        factors = plus(factors, times(g->heads, times(g->rows, g->rows)));
        coupled = plus(coupled, times(g->heads, g->rows));
    }
    c->tasks = memory_take(l, rows, sizeof *c->tasks);
    c->spans = memory_take(l, rows, sizeof *c->spans);
    c->factors = memory_take(l, factors, sizeof *c->factors);
    c->scratch = memory_take(l, most, sizeof *c->scratch);
    c->rest = memory_take(l, times(coupled, feedback_padded(columns)), sizeof *c->rest);
}

void chains_free(row_chains *c) {
    free(c->tasks), free(c->spans), free(c->factors), free(c->rest), free(c->scratch);
}

/* Heads of a chain. */
static size_t heads_at_once(const forward_row_group *g, size_t together, const kernels *k, int threads) {
    size_t lanes = k->matmul->panel;
    while (lanes > k->lanes && parts(g->heads * together, lanes) < (size_t)threads) lanes /= 2;
    return larger(lanes / together, 1);
}

/* Adds the chains and the spans of one group. *factors and *rest: what is left of these. */
static void chains_add_group(row_chains *c, const row_metric *m, size_t padded, const kernels *k, int threads,
                             float **factors, float **rest) {
    const forward_row_group *g = &m->group;
    size_t together = rows_together(g), most = heads_at_once(g, together, k, threads), heads;
    for (size_t head = 0; head < g->heads; head += heads) {
        heads = smaller(most, g->heads - head);
        c->tasks[c->n_tasks++] = (chain_task){
            g->first + head * g->step, heads * g->rows, {heads, g->rows, together, g->step, *factors, *rest}};
        for (size_t i = 0; i < heads; i++) {
            const float *metric = m->metric + (head + i) * g->rows * g->rows;
            coupling_factors(metric, g->rows, together, *factors, c->scratch);
            c->spans[c->n_spans++] = (chain_span){g->first + (head + i) * g->step, g->rows, metric};
            *factors += g->rows * g->rows, *rest += g->rows * padded;
        }
    }
}

/* Whether a row is one of a group with a metric. */
static bool is_coupled(const layer_metrics *m, size_t row) {
    for (size_t i = 0; i < m->n; i++) {
        const forward_row_group *g = &m->of[i].group;
        if (row >= g->first && (row - g->first) / g->step < g->heads && (row - g->first) % g->step < g->rows)
            return true;
    }
    return false;
}

void chains_fill(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, const kernels *k,
                 int threads) {
    float *factors = c->factors, *rest = c->rest;
    c->n_tasks = c->n_spans = 0;
    for (size_t i = 0; i < m->n; i++)
        chains_add_group(c, &m->of[i], feedback_padded(columns), k, threads, &factors, &rest);
    for (size_t first = 0, end; first < rows; first = end) {
        for (end = first; end < rows && end - first < FEEDBACK_ROWS && !is_coupled(m, end);) end++;
        if (end == first) {
            end++;
            continue;
        }
        c->tasks[c->n_tasks++] = (chain_task){first, end - first, {0}};
        c->spans[c->n_spans++] = (chain_span){first, end - first, NULL};
    }
}
