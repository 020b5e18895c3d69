/* Plans chains of rows. A chain's lanes are rows of as many heads as one call takes, or of fewer where some
 * thread would have none otherwise: the more lanes, the fewer times is the moments' root read. */
#include "quantize/study/calibrate/chains.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "imatrix/coupling.h"

/* Lanes are filled up with further rows of the same heads, but with no more than one of so many: they do not
 * know of each other. On a model with 2 heads of 32 keys, 4 rows at once left 2 % more divergence than 1. 16
 * are the lanes of the widest vectors. */
enum { LEAST_LANES = 16, LEAST_APART = 32 };

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
        most = max(most, mul_sat(g->rows, g->rows));
        factors = add_sat(factors, mul_sat(g->heads, mul_sat(g->rows, g->rows)));
        coupled = add_sat(coupled, mul_sat(g->heads, g->rows));
    }
    c->tasks = memory_take(l, rows, sizeof *c->tasks);
    c->spans = memory_take(l, rows, sizeof *c->spans);
    c->factors = memory_take(l, factors, sizeof *c->factors);
    c->scratch = memory_take(l, most, sizeof *c->scratch);
    c->rest = memory_take(l, mul_sat(coupled, feedback_padded(columns)), sizeof *c->rest);
}

void chains_free(row_chains *c) {
    free(c->tasks), free(c->spans), free(c->factors), free(c->rest), free(c->scratch);
}

/* Heads of a chain. */
static size_t heads_at_once(const forward_row_group *g, size_t together, const kernels *k, int threads) {
    size_t lanes = FEEDBACK_ROWS;
    while (lanes > k->lanes && ceil_div(g->heads * together, lanes) < (size_t)threads) lanes /= 2;
    return max(lanes / together, 1);
}

size_t chains_heads(const forward_row_group *g, const kernels *k, int threads, size_t *together) {
    *together = rows_together(g);
    return min(heads_at_once(g, *together, k, threads), g->heads);
}

/* The spans whose rows are rounded here. */
typedef struct chain_share {
    size_t begin, end;
} chain_share;

/* Adds the spans of one group. */
static void chains_list_group(row_chains *c, const row_metric *m) {
    const forward_row_group *g = &m->group;
    for (size_t head = 0; head < g->heads; head++)
        c->spans[c->n_spans++] =
            (chain_span){g->first + head * g->step, g->rows, m->metric + head * g->rows * g->rows};
}

/* Adds the chains of one group whose first head has span `first`. *factors and *rest: what is left of these.
 */
static void chains_add_group(row_chains *c, const row_metric *m, size_t padded, const kernels *k, int threads,
                             size_t first, chain_share share, float **factors, float **rest) {
    const forward_row_group *g = &m->group;
    size_t together = rows_together(g), most = heads_at_once(g, together, k, threads), heads;
    size_t begin = max(share.begin, first), end = min(share.end, first + g->heads);
    for (size_t span = begin; span < end; span += heads) {
        heads = min(most, end - span);
        c->tasks[c->n_tasks++] = (chain_task){
            c->spans[span].first, heads * g->rows, {heads, g->rows, together, g->step, *factors, *rest}};
        for (size_t i = 0; i < heads; i++) {
            coupling_factors(c->spans[span + i].metric, g->rows, together, *factors, c->scratch);
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

/* Finds the span of rows without a metric behind s, or the first where s has no rows. False: there is none.
 */
static bool next_of_rest(const layer_metrics *m, size_t rows, chain_span *s) {
    size_t first = s->first + s->rows, end;
    while (first < rows && is_coupled(m, first)) first++;
    for (end = first; end < rows && end - first < FEEDBACK_ROWS && !is_coupled(m, end);) end++;
    *s = (chain_span){first, end - first, NULL};
    return s->rows > 0;
}

size_t chains_spans(const layer_metrics *m, size_t rows) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) n += m->of[i].group.heads;
    for (chain_span s = {.rows = 0}; next_of_rest(m, rows, &s);) n++;
    return n;
}

void chains_fill(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, const kernels *k,
                 int threads, size_t begin, size_t end) {
    float *factors = c->factors, *rest = c->rest;
    chain_share share = {begin, end};
    size_t first = 0;
    c->n_tasks = c->n_spans = 0;
    for (size_t i = 0; i < m->n; i++) chains_list_group(c, &m->of[i]);
    for (size_t i = 0; i < m->n; first += m->of[i++].group.heads)
        chains_add_group(c, &m->of[i], feedback_padded(columns), k, threads, first, share, &factors, &rest);
    for (chain_span s = {.rows = 0}; next_of_rest(m, rows, &s);) c->spans[c->n_spans++] = s;
    for (size_t i = max(first, begin); i < end; i++)
        c->tasks[c->n_tasks++] = (chain_task){c->spans[i].first, c->spans[i].rows, {0}};
}
