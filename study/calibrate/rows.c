#include "study/calibrate/calibrate.h"

#include <stdlib.h>
#include <string.h>

#include "quantize/strips/strips.h"

/* ---- chains ---- */

/* Plans chains of rows. A chain's lanes are rows of as many heads as one call takes, or of fewer where some
 * thread would have none otherwise: the more lanes, the fewer times is the Cholesky factor read. */

/* Lanes are filled up with further rows of the same heads, but with no more than one of so many: they do not know of
 * each other. On a model with 2 heads of 32 keys, 4 rows at once left 2 % more KL divergence than 1. 16 are the lanes
 * of the widest vectors. */
enum { LEAST_LANES = 16, LEAST_APART = 32 };

layer_metrics chains_metrics_of(const layer_metrics *m, const model_tensor *t) {
    layer_metrics own = {.n = 0};
    for (size_t i = 0; i < m->n; i++)
        if (m->of[i].group.weight == t && m->of[i].metric) own.of[own.n++] = m->of[i];
    return own;
}

/* The rows of a head that are rounded at once: a power of two that divides them. The level has no part in it. */
static size_t rows_together(const forward_row_group *g) {
    size_t together = 1;
    while (together * g->heads < LEAST_LANES && 2 * together * LEAST_APART <= g->rows &&
           g->rows % (2 * together) == 0)
        together *= 2;
    return together;
}

static void chains_lay_out(row_chains *c, const layer_metrics *m, size_t rows, size_t columns,
                           memory_ledger *l) {
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

static void chains_free(row_chains *c) {
    free(c->tasks), free(c->spans), free(c->factors), free(c->rest), free(c->scratch);
}

/* Heads of a chain. */
static size_t heads_at_once(const forward_row_group *g, size_t together, const kernels *k, int threads) {
    size_t lanes = FEEDBACK_ROWS;
    while (lanes > k->lanes && ceil_div(g->heads * together, lanes) < (size_t)threads) lanes /= 2;
    return max(lanes / together, 1);
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
            (chain_span){g->first + head * g->stride, g->rows, m->metric + head * g->rows * g->rows};
}

/* Adds the chains of one group whose first head has span `first`. *factors and *rest: what is left of these. */
static void chains_add_group(row_chains *c, const row_metric *m, size_t padded, const kernels *k, int threads,
                             size_t first, chain_share share, float **factors, float **rest) {
    const forward_row_group *g = &m->group;
    size_t together = rows_together(g), most = heads_at_once(g, together, k, threads), heads;
    size_t begin = max(share.begin, first), end = min(share.end, first + g->heads);
    for (size_t span = begin; span < end; span += heads) {
        heads = min(most, end - span);
        c->tasks[c->n_tasks++] = (chain_task){
            c->spans[span].first, heads * g->rows, {heads, g->rows, together, g->stride, *factors, *rest}};
        for (size_t i = 0; i < heads; i++) {
            feedback_chain_factors(c->spans[span + i].metric, g->rows, together, *factors, c->scratch);
            *factors += g->rows * g->rows, *rest += g->rows * padded;
        }
    }
}

/* Whether a row is one of a group with a metric. */
static bool is_coupled(const layer_metrics *m, size_t row) {
    for (size_t i = 0; i < m->n; i++) {
        const forward_row_group *g = &m->of[i].group;
        if (row >= g->first && (row - g->first) / g->stride < g->heads &&
            (row - g->first) % g->stride < g->rows)
            return true;
    }
    return false;
}

/* Finds the span of rows without a metric behind s, or the first where s has no rows. False: there is none. */
static bool next_of_rest(const layer_metrics *m, size_t rows, chain_span *s) {
    size_t first = s->first + s->rows, end;
    while (first < rows && is_coupled(m, first)) first++;
    for (end = first; end < rows && end - first < FEEDBACK_ROWS && !is_coupled(m, end);) end++;
    *s = (chain_span){first, end - first, NULL};
    return s->rows > 0;
}

static size_t chains_spans(const layer_metrics *m, size_t rows) {
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++) n += m->of[i].group.heads;
    for (chain_span s = {.rows = 0}; next_of_rest(m, rows, &s);) n++;
    return n;
}

static void chains_fill(row_chains *c, const layer_metrics *m, size_t rows, size_t columns, const kernels *k,
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

/* ---- a matrix ---- */

/* The spans of the rank that has most. A chain's rows have to be in memory together, so with metrics all are. */
static size_t spans_at_once(size_t spans, size_t ranks) {
    return min(ceil_div(spans, ranks), CALIBRATION_ROWS / SPAN_ROWS);
}
static size_t rows_at_once(size_t n, const layer_metrics *m, size_t ranks) {
    return m->n ? n : min(spans_at_once(ceil_div(n, SPAN_ROWS), ranks) * SPAN_ROWS, n);
}

static void lay_out_shares(matrix_rows *r, size_t ranks) {
    r->n_spans = r->metrics->n ? chains_spans(r->metrics, r->n_rows) : ceil_div(r->n_rows, SPAN_ROWS);
    r->share.slice_spans = r->metrics->n ? r->n_spans : spans_at_once(r->n_spans, ranks);
    r->share.slices = ceil_div(ceil_div(r->n_spans, ranks), r->share.slice_spans);
}

/* Allocates or counts memory for the rows as stored, decoded and rounded in each way, and for the threads'
 * scratch. */
static void lay_out_rows(matrix_rows *r, size_t threads, size_t ranks, memory_ledger *l) {
    uint64_t n = mul_sat(r->most, r->columns), from = mul_sat(r->most, gguf_row_bytes(r->from, r->columns)),
             to = mul_sat(r->most, gguf_row_bytes(r->to, r->columns));
    /* The bound for any type, so that the count does not depend on the processor. */
    r->scratch_bytes = round_up(feedback_most_bytes(r->columns, r->arithmetic), 64);
    r->raw = memory_take(l, 1, from), r->x = memory_take(l, n, sizeof *r->x);
    for (round_way way = 0; way <= r->last; way++) r->blocks[way] = memory_take(l, 1, to);
    r->scratches = memory_take(l, threads, r->scratch_bytes);
    if (r->metrics->n && r->last != WAY_PLAIN) chains_lay_out(&r->chains, r->metrics, r->most, r->columns, l);
    if (ranks == 1) return;
    r->share.own = memory_take(l, r->metrics->n ? 1 : r->share.slices, to);
    r->share.gathered = memory_take(l, r->metrics->n ? 1 : ranks, to);
    r->share.begins = memory_take(l, ranks + 1, sizeof *r->share.begins);
}

void rows_free(matrix_rows *r) {
    for (round_way way = 0; way < ROUND_WAYS; way++) free(r->blocks[way]);
    free(r->raw), free(r->x), free(r->scratches);
    free(r->errors), free(r->share.own), free(r->share.gathered), free(r->share.begins);
    chains_free(&r->chains);
}

uint64_t rows_bytes(const calibration_settings *s, const model_tensor *tensor, const layer_metrics *metrics,
                    const tensor_type *to, int threads, int ranks) {
    memory_ledger l = {.counts = true};
    matrix_rows r = {.from = tensor->type,
                     .to = to,
                     .columns = tensor->ne[0],
                     .n_rows = tensor->ne[1],
                     .most = rows_at_once(tensor->ne[1], metrics, (size_t)ranks),
                     .last = WAY_SWEPT,
                     .arithmetic = calibration_arithmetic(s),
                     .metrics = metrics};
    lay_out_shares(&r, (size_t)ranks);
    uint64_t largest = 0;
    for (size_t i = 0; i < metrics->n; i++) largest = max(largest, metrics->of[i].group.rows);
    if (r.columns > UINT32_MAX) return UINT64_MAX;
    lay_out_rows(&r, (size_t)threads, (size_t)ranks, &l);
    return add_sat(l.bytes, output_bytes(largest));
}

size_t rows_spans_begin(const matrix_rows *r, int rank) {
    return comm_share_rotated(r->task->comm, r->n_spans, r->share.rotation, rank);
}

bool rows_new(matrix_rows *r, const round_task *t, bool calibrated, gq_error *e) {
    static const layer_metrics no_metrics;
    const calibrator *c = t->c;
    const calibration *of = c->of;
    const model_tensor *tensor = of->tensors[t->tensor];
    memory_ledger l = {.failed = false};
    *r = (matrix_rows){.task = t,
                       .tensor = tensor,
                       .from = tensor->type,
                       .to = tensor_type_of(of->outputs[c->at.output][t->tensor].to),
                       .columns = tensor->ne[0],
                       .last = !calibrated           ? WAY_PLAIN
                               : of->settings.sweeps ? WAY_SWEPT
                                                     : WAY_PASS,
                       .arithmetic = calibration_arithmetic(&of->settings),
                       .pool = matmul_pool(c->products),
                       .metrics = calibrated ? &t->metrics : &no_metrics};
    int threads = threads_pool_most(r->pool), rank = gq_comm_rank(t->comm);
    size_t ranks = (size_t)gq_comm_ranks(t->comm);
    r->n_rows = of->sample && !r->metrics->n ? min(of->sample->rows, tensor->ne[1]) : tensor->ne[1];
    r->most = rows_at_once(r->n_rows, r->metrics, ranks),
    r->share.rotation = site_rotation(tensor, c->at.output + t->matrix);
    lay_out_shares(r, ranks);
    r->share.begin = rows_spans_begin(r, rank), r->share.end = rows_spans_begin(r, rank + 1);
    lay_out_rows(r, (size_t)threads, ranks, &l);
    r->errors = memory_take_zeros(&l, r->n_spans, sizeof *r->errors);
    if (!memory_had(&l, e)) return rows_free(r), false;
    if (r->metrics->n)
        chains_fill(&r->chains, r->metrics, r->most, r->columns, of->kernels, threads, r->share.begin,
                    r->share.end);
    return true;
}

/* ---- rows ---- */

chain_span rows_span(const matrix_rows *r, size_t i) {
    uint64_t first = i * SPAN_ROWS, left = r->n_rows - first;
    return r->metrics->n ? r->chains.spans[i] : (chain_span){first, min(left, SPAN_ROWS), NULL};
}

size_t rows_slice_spans(const matrix_rows *r, size_t slice, int rank, size_t *end) {
    size_t begin = rows_spans_begin(r, rank);
    *end = rows_spans_begin(r, rank + 1);
    begin = min(begin + slice * r->share.slice_spans, *end);
    *end = min(begin + r->share.slice_spans, *end);
    return begin;
}

chain_span rows_together_from(const matrix_rows *r, size_t i, size_t end, size_t *next) {
    chain_span s = rows_span(r, i);
    *next = i + 1;
    if (r->metrics->n) return s;
    *next = end;
    s.rows = min(end * SPAN_ROWS, r->n_rows) - s.first;
    return s;
}

size_t rows_place(const matrix_rows *r, const chain_span *s) { return s->first - r->at_hand.first; }

size_t rows_of_spans(const matrix_rows *r, size_t begin, size_t end) {
    size_t n = 0;
    for (size_t i = begin, next; i < end; i = next) n += rows_together_from(r, i, end, &next).rows;
    return n;
}

size_t rows_count(const matrix_rows *r) { return rows_of_spans(r, r->at_hand.span, r->at_hand.span_end); }

static bool span_read(const matrix_rows *r, const chain_span *s, gq_error *e) {
    const calibration *of = r->task->c->of;
    strip_encoder with = {.kernels = of->kernels, .type = r->to};
    uint64_t element = (r->task->matrix * r->tensor->ne[1] + s->first) * r->columns;
    size_t n = s->rows * r->columns, row = rows_place(r, s);
    float *x = r->x + row * r->columns;
    if (!strip_read_decoded(of->kernels, of->file, r->tensor, element, n,
                            r->raw + row * gguf_row_bytes(r->from, r->columns), x, e))
        return false;
    size_t beyond = strip_beyond(&with, x, n);
    return beyond == n || strip_fail_to_hold(&with, of->file, r->tensor, element + beyond, x[beyond], e);
}

bool rows_read(matrix_rows *r, size_t slice, gq_error *e) {
    r->at_hand.span = rows_slice_spans(r, slice, gq_comm_rank(r->task->comm), &r->at_hand.span_end);
    r->at_hand.first =
        r->metrics->n || r->at_hand.span == r->at_hand.span_end ? 0 : rows_span(r, r->at_hand.span).first;
    for (size_t i = r->at_hand.span, next; i < r->at_hand.span_end; i = next) {
        chain_span s = rows_together_from(r, i, r->at_hand.span_end, &next);
        if (!span_read(r, &s, e)) return false;
    }
    return true;
}
